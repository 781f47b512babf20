#include "attention/across_ranks/units.h"

#include <cstring>

namespace heed::distributed {

UnitStore::UnitStore(Communicator& ranks, const WholeCall& call, const Tensor& key, const Tensor& value,
                     Traffic& traffic)
    : call_(call) {
  std::vector<int64_t> begins;
  for (int64_t u = 0; u < call.units(); ++u) begins.push_back(call.unit(u).first);
  begins.push_back(call.problem.keys);
  layout_ = aligned(call.layouts.keys, begins);
  key_ = redistribute(ranks, key, call.layouts.keys, layout_, traffic.alignment);
  value_ = redistribute(ranks, value, call.layouts.keys, layout_, traffic.alignment);
  documents_ = redistribute(ranks, call.key_documents, call.layouts.keys, layout_, traffic.alignment);
  for (const OwnedRun& each : ordered_runs(layout_)) {
    for (int64_t first = each.run.first; first < each.run.end(); first += kUnitKeys) {
      home_.push_back(each.rank);
      row_.push_back(each.first_row + first - each.run.first);
    }
  }
}

UnitKeys UnitStore::own(int64_t unit) const {
  const Run run = call_.unit(unit);
  const int64_t first = row(unit), end = first + run.count;
  return {run, key_.slice(2, first, end), value_.slice(2, first, end),
          documents_.defined() ? documents_.slice(2, first, end) : Tensor()};
}

UnitKeys UnitStore::none() const {
  return {
      {0, 0}, key_.slice(2, 0, 0), value_.slice(2, 0, 0), documents_.defined() ? documents_.slice(2, 0, 0) : Tensor()};
}

int64_t UnitStore::bytes_of_rows(const Run& run) const {
  return call_.groups() * run.count * (call_.problem.size + call_.problem.value_size) * size_of(call_.dtype);
}

int64_t UnitStore::documents_at(const Run& run) const {
  const int64_t integer = size_of(DType::i32);
  return (bytes_of_rows(run) + integer - 1) / integer * integer;
}

Tensor UnitStore::empty_message(int64_t unit) const {
  const Run run = call_.unit(unit);
  if (!documents_.defined()) return Tensor::empty({bytes_of_rows(run)}, DType::u8);
  return Tensor::empty({documents_at(run) + call_.problem.batch * run.count * size_of(DType::i32)}, DType::u8);
}

UnitKeys UnitStore::in_message(const Tensor& message, int64_t unit) const {
  const AttentionProblem& p = call_.problem;
  const Run run = call_.unit(unit);
  auto* const data = static_cast<char*>(message.raw());
  const int64_t element = size_of(call_.dtype), group = run.count * (p.size + p.value_size);
  const auto rows = [&](int64_t skipped, int64_t columns) {
    return Tensor::wrap(data + skipped * element, {p.batch, p.kv_heads, run.count, columns},
                        {p.kv_heads * group, group, columns, 1}, call_.dtype);
  };
  UnitKeys keys{run, rows(0, p.size), rows(run.count * p.size, p.value_size), {}};
  if (documents_.defined()) {
    keys.documents = Tensor::wrap(data + documents_at(run), {p.batch, 1, run.count, 1}, DType::i32);
  }
  return keys;
}

Tensor UnitStore::message_of(int64_t unit) const {
  Tensor message = empty_message(unit);
  const UnitKeys to = in_message(message, unit), from = own(unit);
  to.key.copy_from(from.key);
  to.value.copy_from(from.value);
  if (documents_.defined()) {
    const int64_t end = bytes_of_rows(to.run);  // of the values; what is between them and the documents is sent, too
    std::memset(static_cast<char*>(message.raw()) + end, 0, static_cast<size_t>(documents_at(to.run) - end));
    to.documents.copy_from(from.documents);
  }
  return message;
}

}  // namespace heed::distributed
