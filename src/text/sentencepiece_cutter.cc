#include "text/sentencepiece_cutter.h"

#include "heed/error.h"

namespace heed::text {
namespace {

using sentencepiece::SentencePieceProcessor;

constexpr int kBytes = 256;

sentencepiece::ImmutableSentencePieceText cut(const SentencePieceProcessor& processor, std::string_view text) {
  sentencepiece::ImmutableSentencePieceText pieces;
  const auto status = processor.Encode(text, pieces.mutable_proto());
  require(status.ok(), "encode", "text that SentencePiece can cut; ", status.ToString());
  return pieces;
}

// Fields of a protocol buffer that is appended to another one are added to its lists and replace its numbers:
// ModelProto { 1 pieces { 1 piece: string, 3 type: BYTE is 6 }, 2 trainer_spec { 35 byte_fallback: bool } }.
std::string pieces_for_bytes() {
  std::string model;
  for (int byte = 0; byte < kBytes; ++byte) {
    const char* const digits = "0123456789ABCDEF";
    const std::string name = std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">";
    const std::string piece = "\x0a" + std::string(1, static_cast<char>(name.size())) + name + "\x18\x06";
    model += "\x0a" + std::string(1, static_cast<char>(piece.size())) + piece;
  }
  return model + "\x12\x03\x98\x02\x01";
}

}  // namespace

const SentencePieceProcessor* SentencePieceCutter::with_bytes() const {
  std::call_once(once_, [&] {
    for (int id = 0; id < processor_->GetPieceSize(); ++id)
      if (processor_->IsByte(id)) return;
    auto made = std::make_unique<SentencePieceProcessor>();
    if (made->LoadFromSerializedProto(processor_->serialized_model_proto() + pieces_for_bytes()).ok())
      with_bytes_ = std::move(made);
  });
  return with_bytes_.get();
}

std::vector<SentencePieceCutter::Piece> SentencePieceCutter::pieces(std::string_view text) const {
  const SentencePieceProcessor* const other = text.size() < kLongText ? nullptr : with_bytes();
  const auto found = cut(other != nullptr ? *other : *processor_, text);
  const int size = processor_->GetPieceSize();
  std::vector<Piece> result;
  bool joins = false;  // the piece before was a byte
  for (size_t i = 0; i < found.pieces_size(); ++i) {
    const auto piece = found.pieces(static_cast<int>(i));
    const int id = static_cast<int>(piece.id());
    if (id < size) {
      result.push_back({id, piece.piece(), piece.begin(), piece.end()});
    } else {
      const char byte = static_cast<char>(id - size);
      if (!joins) result.push_back({processor_->unk_id(), {}, piece.begin(), 0});
      result.back().spelling += byte;
      result.back().end = piece.end();
    }
    joins = id >= size;
  }
  return result;
}

std::vector<int32_t> SentencePieceCutter::ids(std::string_view text) const {
  std::vector<int32_t> result;
  for (const Piece& piece : pieces(text)) result.push_back(piece.id);
  return result;
}

}  // namespace heed::text
