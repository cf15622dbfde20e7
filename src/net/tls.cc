#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <utility>

#include "base/file.h"

namespace wattle::net {

namespace {

struct FreeContext {
  void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
};
using Context = std::unique_ptr<SSL_CTX, FreeContext>;

std::string newest_error() {
  std::array<char, 256> text{};
  ::ERR_error_string_n(::ERR_get_error(), text.data(), text.size());
  ::ERR_clear_error();
  return text.data();
}

int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                    unsigned int size, void*) {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  if (::SSL_select_next_proto(&chosen, out_size, kOurs, sizeof kOurs - 1, in, size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;  // a client of HTTP/2 alone: better now than on its first frame
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

Result<Context> make_context(const std::string& certificate_file, const std::string& key_file) {
  Context made(::SSL_CTX_new(::TLS_server_method()));
  SSL_CTX* const context = made.get();
  if (context == nullptr) return external_failure("TLS", newest_error());
  ::SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  ::SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  ::SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE);
  ::SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  // Else OpenSSL asks at the terminal, and waits.
  ::SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return -1; });
  if (::SSL_CTX_use_certificate_chain_file(context, certificate_file.c_str()) != 1) {
    return bad_input(certificate_file, "is no PEM file of a certificate chain: " + newest_error());
  }
  if (::SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return bad_input(key_file, "is no private key (PEM, without a pass phrase) of the certificate: " + newest_error());
  }
  if (::SSL_CTX_check_private_key(context) != 1) return bad_input(key_file, "is not the certificate's key");
  return made;
}

}  // namespace

struct TlsContext::Impl {
  std::string certificate_file, key_file;
  std::string seen;  ///< both files, when they were last read
  std::mutex mutex;
  Context context;
};

TlsContext::TlsContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsContext::~TlsContext() = default;

Result<std::shared_ptr<const TlsContext>> TlsContext::server(const std::string& certificate_file,
                                                             const std::string& key_file) {
  auto impl = std::make_unique<Impl>();
  impl->certificate_file = certificate_file;
  impl->key_file = key_file;
  std::shared_ptr<const TlsContext> made(new TlsContext(std::move(impl)));
  if (const auto problem = made->look()) return std::unexpected(*problem);
  return made;
}

std::optional<Error> TlsContext::look() const {
  Impl& s = *impl_;
  std::string found;
  for (const auto& file : {s.certificate_file, s.key_file}) found += read_file(file).value_or("") + '\n';
  if (found == s.seen) return std::nullopt;
  s.seen = std::move(found);
  auto fresh = make_context(s.certificate_file, s.key_file);
  if (!fresh) return fresh.error();
  const std::lock_guard lock(s.mutex);
  s.context = std::move(*fresh);
  return std::nullopt;
}

ssl_st* TlsContext::session() const {
  const std::lock_guard lock(impl_->mutex);
  return ::SSL_new(impl_->context.get());
}

struct TlsSession::Impl {
  std::shared_ptr<const TlsContext> context;
  SSL* ssl;
  BIO* in;  ///< owned by ssl, as out
  BIO* out;
  bool broken = false;

  explicit Impl(std::shared_ptr<const TlsContext> c)
      : context(std::move(c)), ssl(context->session()), in(::BIO_new(::BIO_s_mem())), out(::BIO_new(::BIO_s_mem())) {
    ::SSL_set_bio(ssl, in, out);
    ::SSL_set_accept_state(ssl);
  }
  ~Impl() {
    ::ERR_clear_error();
    ::SSL_free(ssl);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void drain(std::string& sealed) {
    std::array<char, 4096> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled next
    for (int n = 0; (n = ::BIO_read(out, piece.data(), static_cast<int>(piece.size()))) > 0;) {
      sealed.append(piece.data(), static_cast<std::size_t>(n));
    }
  }
};

TlsSession::TlsSession(std::shared_ptr<const TlsContext> context) : impl_(std::make_unique<Impl>(std::move(context))) {}
TlsSession::~TlsSession() = default;

bool TlsSession::established() const { return ::SSL_is_init_finished(impl_->ssl) == 1; }

bool TlsSession::open(std::string_view bytes, std::string& plain, std::string& sealed) {
  Impl& s = *impl_;
  ::ERR_clear_error();
  while (!bytes.empty()) {
    const auto n = static_cast<int>(std::min<std::size_t>(bytes.size(), std::numeric_limits<int>::max()));
    const int taken = ::BIO_write(s.in, bytes.data(), n);
    if (taken <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(taken));
  }
  std::array<char, 16 * 1024> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init): a record at most, filled next
  for (;;) {
    const int n = ::SSL_read(s.ssl, piece.data(), static_cast<int>(piece.size()));
    if (n > 0) {
      plain.append(piece.data(), static_cast<std::size_t>(n));
      continue;
    }
    const int why = ::SSL_get_error(s.ssl, n);
    s.drain(sealed);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_ZERO_RETURN) return true;
    s.broken = true;
    ::ERR_clear_error();
    return false;
  }
}

bool TlsSession::seal(std::string_view plain, std::string& sealed) {
  Impl& s = *impl_;
  if (s.broken || !established()) return false;
  ::ERR_clear_error();
  while (!plain.empty()) {
    const auto most = static_cast<int>(std::min<std::size_t>(plain.size(), std::numeric_limits<int>::max()));
    const int n = ::SSL_write(s.ssl, plain.data(), most);
    if (n <= 0) {
      s.broken = true;
      return false;
    }
    plain.remove_prefix(static_cast<std::size_t>(n));
  }
  s.drain(sealed);
  return true;
}

void TlsSession::close(std::string& sealed) {
  if (impl_->broken || !established()) return;
  static_cast<void>(::SSL_shutdown(impl_->ssl));
  ::ERR_clear_error();
  impl_->drain(sealed);
}

}  // namespace wattle::net
