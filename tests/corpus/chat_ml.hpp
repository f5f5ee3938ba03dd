// ChatML as models are published with it.
#pragma once

#include <string>

namespace sluice::test {

inline const std::string kChatMl =
    R"({% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|)"
    R"(im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }})"
    R"({% endif %})";

}  // namespace sluice::test
