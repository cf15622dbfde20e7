#pragma once
namespace rotten::high {
int answer();
}
