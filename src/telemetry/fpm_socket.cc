#include "telemetry/fpm_socket.h"

#include <zmq.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace wattle::telemetry {

namespace {

constexpr std::size_t kSequenceBytes = 8;
constexpr int kQueue = 4096;
/// A flood from one engine must not keep the others, or the clock, waiting.
constexpr int kBatch = 256;

struct CloseContext {
  void operator()(void* p) const { zmq_ctx_term(p); }
};
struct CloseSocket {
  void operator()(void* p) const { zmq_close(p); }
};
using Context = std::unique_ptr<void, CloseContext>;
using Socket = std::unique_ptr<void, CloseSocket>;

/// IPv6 for addresses in brackets only: of a name that has addresses of both kinds, ZeroMQ would then take that one,
/// and engines listen on IPv4 as a rule.
Socket open_socket(void* context, int type, const std::string& endpoint) {
  Socket socket(zmq_socket(context, type));
  const int v6 = endpoint.starts_with("tcp://[") ? 1 : 0;
  zmq_setsockopt(socket.get(), ZMQ_IPV6, &v6, sizeof v6);
  const int none = 0;
  zmq_setsockopt(socket.get(), ZMQ_LINGER, &none, sizeof none);
  zmq_setsockopt(socket.get(), type == ZMQ_PUB ? ZMQ_SNDHWM : ZMQ_RCVHWM, &kQueue, sizeof kQueue);
  return socket;
}

}  // namespace

struct FpmPublisher::Impl {
  Context context;
  Socket socket;
  std::string endpoint;
  std::string worker_id;
  std::vector<std::uint8_t> buffer;
  std::int64_t sequence = 0;
};

FpmPublisher::FpmPublisher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FpmPublisher::~FpmPublisher() = default;
FpmPublisher::FpmPublisher(FpmPublisher&&) noexcept = default;
FpmPublisher& FpmPublisher::operator=(FpmPublisher&&) noexcept = default;

Result<FpmPublisher> FpmPublisher::bind(const std::string& endpoint, const std::string& worker_id) {
  auto impl = std::make_unique<Impl>();
  impl->context.reset(zmq_ctx_new());
  impl->socket = open_socket(impl->context.get(), ZMQ_PUB, endpoint);
  impl->worker_id = worker_id;
  if (zmq_bind(impl->socket.get(), endpoint.c_str()) != 0) {
    return external_failure(endpoint, std::string("cannot publish there: ") + zmq_strerror(zmq_errno()));
  }
  std::array<char, 256> bound{};
  std::size_t size = bound.size();
  zmq_getsockopt(impl->socket.get(), ZMQ_LAST_ENDPOINT, bound.data(), &size);
  impl->endpoint = bound.data();
  return FpmPublisher(std::move(impl));
}

const std::string& FpmPublisher::endpoint() const { return impl_->endpoint; }
std::int64_t FpmPublisher::published() const { return impl_->sequence; }

void FpmPublisher::publish(const StepReport& report, Instant now, Span wall) {
  FpmMessage message = to_fpm(report, impl_->worker_id, now);
  message.counter_id = ++impl_->sequence;
  message.wall_time_s = wall.seconds();
  impl_->buffer.clear();
  encode_fpm(message, impl_->buffer);
  std::array<std::uint8_t, kSequenceBytes> sequence{};
  for (std::size_t i = 0; i < kSequenceBytes; ++i) {
    sequence[i] =
        static_cast<std::uint8_t>(static_cast<std::uint64_t>(impl_->sequence) >> (8 * (kSequenceBytes - 1 - i)));
  }
  void* socket = impl_->socket.get();
  if (zmq_send(socket, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) return;
  zmq_send(socket, sequence.data(), sequence.size(), ZMQ_SNDMORE | ZMQ_DONTWAIT);
  zmq_send(socket, impl_->buffer.data(), impl_->buffer.size(), ZMQ_DONTWAIT);
}

struct FpmSubscriber::Impl {
  Context context;
  struct Feed {
    std::string endpoint;
    InstanceId instance;
    Socket socket;
  };
  std::vector<Feed> feeds;
  std::vector<zmq_pollitem_t> items;
  FpmDrops drops;

  template <typename F>
  void drop_if(F&& which) {
    std::erase_if(feeds, which);
    items.clear();
    for (const Feed& feed : feeds) items.push_back({feed.socket.get(), 0, ZMQ_POLLIN, 0});
  }

  void drop(FpmError error) {
    switch (error) {
      case FpmError::Truncated:
        ++drops.truncated;
        break;
      case FpmError::WrongShape:
        ++drops.wrong_shape;
        break;
      case FpmError::OtherVersion:
        ++drops.other_version;
        break;
      case FpmError::OutOfRange:
        ++drops.out_of_range;
        break;
    }
  }
};

FpmSubscriber::FpmSubscriber(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FpmSubscriber::~FpmSubscriber() = default;
FpmSubscriber::FpmSubscriber(FpmSubscriber&&) noexcept = default;
FpmSubscriber& FpmSubscriber::operator=(FpmSubscriber&&) noexcept = default;

Result<FpmSubscriber> FpmSubscriber::connect(const std::vector<Source>& sources) {
  auto impl = std::make_unique<Impl>();
  impl->context.reset(zmq_ctx_new());
  FpmSubscriber subscriber(std::move(impl));
  for (const auto& source : sources) {
    if (auto added = subscriber.add(source); !added) return std::unexpected(added.error());
  }
  return subscriber;
}

Result<void> FpmSubscriber::add(const Source& source) {
  Socket socket = open_socket(impl_->context.get(), ZMQ_SUB, source.endpoint);
  const int retry_ms = 50;
  const int retry_most_ms = 1000;
  zmq_setsockopt(socket.get(), ZMQ_RECONNECT_IVL, &retry_ms, sizeof retry_ms);
  zmq_setsockopt(socket.get(), ZMQ_RECONNECT_IVL_MAX, &retry_most_ms, sizeof retry_most_ms);
  // Nothing is ever sent there: without probes a host that vanished would not be missed, nor its engine found again.
  const int on = 1, idle_s = 5, gap_s = 2, probes = 3;
  zmq_setsockopt(socket.get(), ZMQ_TCP_KEEPALIVE, &on, sizeof on);
  zmq_setsockopt(socket.get(), ZMQ_TCP_KEEPALIVE_IDLE, &idle_s, sizeof idle_s);
  zmq_setsockopt(socket.get(), ZMQ_TCP_KEEPALIVE_INTVL, &gap_s, sizeof gap_s);
  zmq_setsockopt(socket.get(), ZMQ_TCP_KEEPALIVE_CNT, &probes, sizeof probes);
  zmq_setsockopt(socket.get(), ZMQ_SUBSCRIBE, "", 0);
  if (zmq_connect(socket.get(), source.endpoint.c_str()) != 0) {
    return bad_input(source.endpoint, std::string("is no endpoint like tcp://host:port: ") + zmq_strerror(zmq_errno()));
  }
  impl_->drop_if([&](const Impl::Feed& feed) { return feed.endpoint == source.endpoint; });
  impl_->items.push_back({socket.get(), 0, ZMQ_POLLIN, 0});
  impl_->feeds.push_back({source.endpoint, source.instance, std::move(socket)});
  return {};
}

void FpmSubscriber::drop(InstanceId instance) {
  impl_->drop_if([instance](const Impl::Feed& feed) { return feed.instance == instance; });
}

std::size_t FpmSubscriber::sources() const { return impl_->feeds.size(); }

const FpmDrops& FpmSubscriber::drops() const { return impl_->drops; }

void FpmSubscriber::poll(Span patience, const std::function<Instant()>& clock,
                         const std::function<void(const StepReport&, Instant)>& take) {
  poll_messages(patience, [&](const FpmMessage& message, InstanceId instance) {
    const Instant now = clock();
    take(to_step_report(message, instance, now), now);
  });
}

void FpmSubscriber::poll_messages(Span patience, const std::function<void(const FpmMessage&, InstanceId)>& take) {
  const auto wait_ms = static_cast<long>((std::max(Span(), patience).ns() + 999'999) / 1'000'000);
  if (zmq_poll(impl_->items.data(), static_cast<int>(impl_->items.size()), wait_ms) <= 0) return;
  for (std::size_t i = 0; i < impl_->feeds.size(); ++i) {
    if ((impl_->items[i].revents & ZMQ_POLLIN) == 0) continue;
    for (int n = 0; n < kBatch; ++n) {
      zmq_msg_t frame;
      std::size_t frames = 0;
      bool good = true;
      int more = 1;
      bool any = false;
      std::expected<FpmMessage, FpmError> message = std::unexpected(FpmError::WrongShape);
      while (more != 0) {
        zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, impl_->feeds[i].socket.get(), ZMQ_DONTWAIT) < 0) {
          zmq_msg_close(&frame);
          break;
        }
        any = true;
        more = zmq_msg_more(&frame);
        if (frames == 1 && zmq_msg_size(&frame) != kSequenceBytes) good = false;
        if (frames == 2 && more == 0 && good) {
          message = decode_fpm({static_cast<const std::uint8_t*>(zmq_msg_data(&frame)), zmq_msg_size(&frame)});
          if (message) {
            take(*message, impl_->feeds[i].instance);
          } else {
            impl_->drop(message.error());
          }
        }
        ++frames;
        zmq_msg_close(&frame);
      }
      if (!any) break;
      if (frames != 3 || !good) ++impl_->drops.bad_frames;
    }
  }
}

}  // namespace wattle::telemetry
