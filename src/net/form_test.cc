#include "net/form.h"

#include <gtest/gtest.h>

#include <string>

namespace wattle::net {
namespace {

constexpr std::string_view kType = "multipart/form-data; charset=utf-8; boundary=\"b 1\"";

std::string part(const std::string& head, const std::string& content) {
  return "--b 1\r\n" + head + "\r\n\r\n" + content + "\r\n";
}

TEST(Form, FieldsAreFoundByName) {
  const std::string file = part("Content-Disposition: form-data; name=\"file\"; filename=\"model; name=model\"",
                                std::string("RIFF\0--b\r\n\r\nname=\"model\"", 24));
  const std::string form = file +
                           part("Content-Type: text/plain\r\ncontent-disposition: form-data; name=\"model\"", "m") +
                           part("Content-Disposition: form-data; name=model", "other") +
                           part("Content-Disposition: form-data;name=prompt", "") + "--b 1--\r\n";
  EXPECT_EQ(form_field(kType, form, "model"), "m");
  EXPECT_EQ(form_field(kType, "preamble\r\n" + form, "model"), "m");
  EXPECT_EQ(form_field(kType, form, "prompt"), "");
  EXPECT_EQ(form_field(kType, form, "language"), std::nullopt);
  EXPECT_EQ(
      form_field("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx", "a"), "x")
      << "cut off";
}

TEST(Form, WhatIsNoneHasNoFields) {
  for (const char* type : {"", "application/json", "multipart/form-data", "multipart/form-data; boundary=",
                           "multipart/form-data; boundary", "multipart/form-data; x=\"boundary=b\""}) {
    EXPECT_EQ(form_field(type, "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--b--", "a"),
              std::nullopt)
        << type;
  }
  const std::string type = "multipart/form-data; boundary=b";
  for (const char* body :
       {"", "--b", "--b--", "--b\r\n", "--b\r\nContent-Disposition: form-data; name=\"a\"", "x--b\r\n"}) {
    EXPECT_EQ(form_field(type, body, "a"), std::nullopt) << body;
  }
  std::string many;
  for (int i = 0; i < 100; ++i) many += "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n\r\n";
  EXPECT_EQ(form_field(type, many + "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nv\r\n--b--", "a"),
            std::nullopt)
      << "the search has an end";
}

TEST(Form, WhatIsJsonToALenientReaderIsKnown) {
  for (const std::string& body : {std::string("{}"), std::string(" \n[1]"), std::string("\xEF\xBB\xBF{}"),
                                  std::string("\xFF\xFE{\0}\0", 6), std::string("\0{\0}", 4)}) {
    EXPECT_TRUE(begins_like_json(body)) << body;
  }
  for (const char* body : {"", "--b\r\n{", "RIFF", "a=1"}) EXPECT_FALSE(begins_like_json(body)) << body;
  for (const char* type : {"multipart/form-data; boundary=b", "Audio/wav", "application/octet-stream"}) {
    EXPECT_TRUE(is_no_json(type)) << type;
  }
  for (const char* type : {"", "application/json", "text/plain", "application/vnd.api+json"}) {
    EXPECT_FALSE(is_no_json(type)) << type;
  }
}

}  // namespace
}  // namespace wattle::net
