#include <dlfcn.h>

#include "config/locate.h"
#include "neural_module/neural_module.h"

namespace wattle::apps {

Result<void*> neural_symbol(const char* name) {
#ifdef WATTLE_NEURAL_MODULE
  // never closed: libtorch does not survive it
  void* module = dlopen(config::library_file(WATTLE_NEURAL_MODULE).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return external_failure("neural module", dlerror());
  void* symbol = dlsym(module, name);
  if (symbol == nullptr) return external_failure("neural module", "is of another build");
  return symbol;
#else
  (void)name;
  return external_failure("neural module", "this build has none; configure with -DWATTLE_TORCH=ON");
#endif
}

}  // namespace wattle::apps
