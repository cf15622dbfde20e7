// Calls upward without including anything from above, so that only the link can tell.
namespace rotten::high {
int answer();
}
namespace rotten::low {
int question() { return high::answer(); }
}  // namespace rotten::low
