#include "net/tls.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <cstdlib>
#include <filesystem>

#include "net/raw_client_test.h"
#include "net/server.h"

namespace wattle::net {
namespace {

/// A certificate for "localhost".
struct Certificate {
  std::string folder;
  std::string file, key;
  explicit Certificate(const std::string& name)
      : folder(testing::TempDir() + "wattle-tls-" + std::to_string(::getpid()) + "-" + name),
        file(folder + "/cert.pem"),
        key(folder + "/key.pem") {
    std::filesystem::create_directories(folder);
    const std::string make =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
        " -keyout " +
        key + " -out " + file + " 2>/dev/null";
    EXPECT_EQ(std::system(make.c_str()), 0) << make;
  }
  ~Certificate() { std::filesystem::remove_all(folder); }
  Certificate(const Certificate&) = delete;
  Certificate& operator=(const Certificate&) = delete;
};

const Certificate& certificate() {
  static const Certificate made("once");
  return made;
}

/// Echoes bodies; /big answers many.
struct Server {
  LoopPool pool{1};
  std::unique_ptr<HttpServer> server;
  std::shared_ptr<const TlsContext> tls;
  explicit Server(ServerOptions options = {}, const Certificate& of = certificate())
      : tls(TlsContext::server(of.file, of.key).value()) {
    options.tls = tls;
    server = std::move(*HttpServer::listen(pool, options, [](const std::shared_ptr<Exchange>& e) {
      e->respond(200, "text/plain", e->path() == "/big" ? std::string(3'000'000, 'x') : e->body());
    }));
  }
  ~Server() {
    server.reset();
    pool.stop();
  }
};

/// OpenSSL's own client, blocking.
struct Client {
  SSL_CTX* context = ::SSL_CTX_new(::TLS_client_method());
  SSL* ssl = ::SSL_new(context);
  RawClient socket;
  explicit Client(std::uint16_t port) : socket(port) { ::SSL_set_fd(ssl, socket.descriptor()); }
  ~Client() {
    ::SSL_free(ssl);
    ::SSL_CTX_free(context);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  std::string ask(const std::string& bytes, std::size_t least) {
    if (::SSL_write(ssl, bytes.data(), static_cast<int>(bytes.size())) <= 0) return "";
    std::string out;
    char piece[8192];
    while (out.size() < least) {
      const int n = ::SSL_read(ssl, piece, sizeof piece);
      if (n <= 0) break;
      out.append(piece, static_cast<std::size_t>(n));
    }
    return out;
  }
};

std::string post(const std::string& body) {
  return "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

TEST(Tls, AConversationIsAsInPlainText) {
  Server server;
  Client client(server.server->port());
  ASSERT_EQ(::SSL_connect(client.ssl), 1);
  EXPECT_STREQ(::SSL_get_version(client.ssl), "TLSv1.3");
  for (const std::size_t size : {std::size_t{3}, std::size_t{100'000}, std::size_t{7}}) {
    const std::string body(size, 'b');
    EXPECT_TRUE(client.ask(post(body), size + 60).ends_with(body));
  }
  EXPECT_GT(client.ask("GET /big HTTP/1.1\r\nHost: h\r\n\r\n", 3'000'000).size(), 3'000'000U);
  const std::string last = client.ask("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 1'000'000);
  EXPECT_TRUE(last.starts_with("HTTP/1.1 200")) << last;
  EXPECT_NE(::SSL_get_shutdown(client.ssl) & SSL_RECEIVED_SHUTDOWN, 0) << "nothing was cut off, and that is said";
  Client bad(server.server->port());
  ASSERT_EQ(::SSL_connect(bad.ssl), 1);
  EXPECT_TRUE(bad.ask("BAD\r\n\r\n", 1000).starts_with("HTTP/1.1 400"));
}

TEST(Tls, WhoDoesNotSpeakItIsClosed) {
  ServerOptions options;
  options.header_timeout = Span::ms(300);
  Server server(options);
  RawClient plain(server.server->port());
  plain.send(post("secret"));
  EXPECT_EQ(plain.all().find("HTTP/1.1"), std::string::npos);
  RawClient silent(server.server->port());
  EXPECT_EQ(silent.all(), "") << "a handshake has a time";
  RawClient slow(server.server->port());
  slow.send("\x16\x03\x01");
  EXPECT_EQ(slow.all(), "");
}

TEST(Tls, OldVersionsAndHttp2AloneAreRefused) {
  Server server;
  Client old(server.server->port());
  ::SSL_set_max_proto_version(old.ssl, TLS1_1_VERSION);
  EXPECT_NE(::SSL_connect(old.ssl), 1);
  Client two(server.server->port());
  ASSERT_EQ(::SSL_set_alpn_protos(two.ssl, reinterpret_cast<const unsigned char*>("\x02h2"), 3), 0);
  EXPECT_NE(::SSL_connect(two.ssl), 1);
  Client both(server.server->port());
  ASSERT_EQ(::SSL_set_alpn_protos(both.ssl, reinterpret_cast<const unsigned char*>("\x02h2\x08http/1.1"), 12), 0);
  EXPECT_EQ(::SSL_connect(both.ssl), 1);
}

TEST(Tls, FilesThatAreNoneAreNamed) {
  const auto problem = [](const std::string& file, const std::string& key) {
    const auto made = TlsContext::server(file, key);
    return made ? std::string() : made.error().message();
  };
  EXPECT_NE(problem("/nowhere.pem", certificate().key).find("/nowhere.pem"), std::string::npos);
  EXPECT_NE(problem(certificate().file, certificate().file).find(certificate().file), std::string::npos);
  const std::string locked = certificate().folder + "/locked.pem";
  ASSERT_EQ(std::system(
                ("openssl ec -aes256 -passout pass:abcd -in " + certificate().key + " -out " + locked + " 2>/dev/null")
                    .c_str()),
            0);
  EXPECT_NE(problem(certificate().file, locked).find("without a pass phrase"), std::string::npos)
      << "nobody is asked for it";
}

/// Certificates end, and are renewed in place.
TEST(Tls, ARenewedCertificateHoldsForTheNextConnection) {
  const Certificate first("renewed"), second("second");
  Server server({}, first);
  const auto shown_to_a_client = [&] {
    Client client(server.server->port());
    EXPECT_EQ(::SSL_connect(client.ssl), 1);
    X509* const shown = ::SSL_get1_peer_certificate(client.ssl);
    unsigned char* bytes = nullptr;
    const int size = ::i2d_X509(shown, &bytes);
    const std::string whole(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(std::max(0, size)));
    ::OPENSSL_free(bytes);
    ::X509_free(shown);
    return whole;
  };
  const auto was = shown_to_a_client();
  EXPECT_FALSE(server.tls->look()) << "the same";
  Client running(server.server->port());
  ASSERT_EQ(::SSL_connect(running.ssl), 1);
  const auto put = [](const std::string& from, const std::string& to) {
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  };
  put(second.file, first.file);
  EXPECT_TRUE(server.tls->look()) << "its key is another yet";
  EXPECT_FALSE(server.tls->look()) << "said once";
  EXPECT_EQ(shown_to_a_client(), was);
  put(second.key, first.key);
  EXPECT_FALSE(server.tls->look());
  EXPECT_NE(shown_to_a_client(), was);
  constexpr std::string_view kRequest = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
  EXPECT_GT(::SSL_write(running.ssl, kRequest.data(), kRequest.size()), 0) << "those that are there go on";
  char answer[16];
  EXPECT_GT(::SSL_read(running.ssl, answer, sizeof answer), 0);
}

}  // namespace
}  // namespace wattle::net
