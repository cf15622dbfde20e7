namespace rotten::low {
int question();
}
namespace rotten::high {
int answer() { return 42; }
int ask() { return low::question(); }
}  // namespace rotten::high
