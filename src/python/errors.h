// heed's errors as Python's.
#pragma once

namespace heed::python {

// heed::Error becomes ValueError. Its message names types and options as Python does: float32, resume=True.
void register_errors();

}  // namespace heed::python
