// tokenizer.json, tokenizer_config.json, and text for tokenizers.
#include "malformed/cases.h"

namespace heed::malformed {
namespace {

const char* const kWordPiece =
    R"({"version":"1.0","truncation":{"max_length":9,"strategy":"LongestFirst","stride":0,"direction":"Left"},)"
    R"("padding":null,"added_tokens":[{"id":0,"content":"[UNK]","single_word":false,"lstrip":false,"rstrip":false,)"
    R"("normalized":false,"special":true},{"id":1,"content":"[SEP]","single_word":true,"lstrip":true,"rstrip":true,)"
    R"("normalized":true,"special":true}],"normalizer":{"type":"Sequence","normalizers":[{"type":"BertNormalizer",)"
    R"("clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},{"type":"Replace",)"
    R"("pattern":{"Regex":"[0-9]+"},"content":"7"}]},"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":)"
    R"({"type":"BertProcessing","sep":["[SEP]",1],"cls":["[SEP]",1]},"decoder":{"type":"WordPiece","prefix":"##",)"
    R"("cleanup":true},"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",)"
    R"("max_input_chars_per_word":100,"vocab":{"[UNK]":0,"[SEP]":1,"a":2,"##a":3,"isn":4,"7":5,"caf":6,"##e":7}}})";
const char* const kBpe =
    R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[{"id":6,"content":"<s>","single_word":false,)"
    R"("lstrip":false,"rstrip":false,"normalized":false,"special":true}],"normalizer":{"type":"Sequence",)"
    R"("normalizers":[{"type":"NFKC"},{"type":"Prepend","prepend":"x"},{"type":"Lowercase"}]},"pre_tokenizer":)"
    R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\p{L}+|\\s+(?!\\S)|."},"behavior":)"
    R"("Isolated","invert":false},{"type":"Digits","individual_digits":true}]},"post_processor":{"type":)"
    R"("TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],)"
    R"("pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],"special_tokens":{"<s>":)"
    R"({"id":"<s>","ids":[6],"tokens":["<s>"]}}},"decoder":{"type":"Fuse"},"model":{"type":"BPE","dropout":null,)"
    R"("unk_token":"u","continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":true,"byte_fallback":)"
    R"(false,"ignore_merges":false,"vocab":{"u":0,"a":1,"b":2,"ab":3,"s":4,"abs":5},"merges":["a b",["ab","s"]]}})";
const char* const kUnigram =
    R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":{"type":"Nmt"},)"
    R"("pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"always","split":true},)"
    R"("post_processor":null,"decoder":{"type":"Metaspace","replacement":"_","prepend_scheme":"always","split":true},)"
    R"("model":{"type":"Unigram","unk_id":0,"byte_fallback":false,"vocab":[["<unk>",0.0],["_",-2.0],["a",-3.5],)"
    R"(["_a",-1.5],["b",-4.0],["ab",-2.5]]}})";
const char* const kWordLevel =
    R"({"version":"1.0","added_tokens":[],"normalizer":{"type":"Strip","strip_left":true,"strip_right":true},)"
    R"("pre_tokenizer":{"type":"Punctuation","behavior":"Removed"},"post_processor":null,"decoder":null,)"
    R"("model":{"type":"WordLevel","unk_token":"?","vocab":{"?":0,"a":1}}})";

void add_tokenizer_json(Cases& cases) {
  cases.good("tokenizer_json", "WordPiece", kWordPiece);
  cases.good("tokenizer_json", "BPE", kBpe);
  cases.good("tokenizer_json", "Unigram", kUnigram);
  cases.good("tokenizer_json", "WordLevel", kWordLevel);
  const auto bad = [&](std::string_view kind, std::string_view good, std::string_view from, std::string_view to,
                       std::string_view reason) {
    cases.bad("tokenizer_json", kind, replaced(std::string(good), from, to), reason);
  };
  cases.bad("tokenizer_json", "empty", "", "line 1, column 1");
  cases.bad("tokenizer_json", "a list", "[]", "an object");
  cases.bad("tokenizer_json", "not closed", std::string(kBpe).substr(0, 300), "column 301");
  cases.bad("tokenizer_json", "no model", R"({"version":"1.0"})", "model");
  cases.bad("tokenizer_json", "1,000,000 levels", std::string(1'000'000, '['), "levels");
  bad("another version", kBpe, R"("1.0")", R"("2.0")", "version");
  bad("an unknown model", kBpe, R"("BPE")", R"("BPX")", "BPX");
  bad("an unknown normalizer", kUnigram, "Nmt", "Mnt", "Mnt");
  bad("an unknown pre-tokenizer", kUnigram, R"("Metaspace")", R"("Metaspice")", "Metaspice");
  bad("an unknown post-processor", kBpe, "TemplateProcessing", "Template", "Template");
  bad("an unknown decoder", kBpe, "Fuse", "Confuse", "Confuse");
  bad("an unknown behaviour", kWordLevel, "Removed", "Eaten", "Eaten");
  bad("an id twice", kBpe, R"("b":2)", R"("b":1)", "1");
  bad("a negative id", kBpe, R"("b":2)", R"("b":-2)", "an id for each token");
  bad("an id of 2^40", kBpe, R"("b":2)", R"("b":1099511627776)", "an id for each token");
  bad("an id that is text", kBpe, R"("b":2)", R"("b":"2")", "b");
  bad("a merge of unknown tokens", kBpe, R"("a b")", R"("a z")", "merge 0");
  bad("a merge into an unknown token", kBpe, R"(["ab","s"])", R"(["s","s"])", "merge 1");
  bad("a merge of one token", kBpe, R"("a b")", R"("ab")", "merge");
  bad("an added token with another's id", kBpe, R"("id":6,"content":"<s>")", R"("id":5,"content":"<s>")",
      "an id that no other token has; found 5");
  bad("an empty added token", kWordPiece, R"("content":"[SEP]")", R"("content":"")", "empty");
  bad("an added id of 2^31", kBpe, R"("id":6,"content")", R"("id":2147483648,"content")", "2147483648");
  bad("a gap before an added id", kBpe, R"("id":6,"content":"<s>")", R"("id":7,"content":"<s>")",
      "numbered in their order behind the vocabulary; found 7");
  bad("an empty pattern", kWordPiece, R"({"Regex":"[0-9]+"})", R"({"String":""})", "a text; found an empty one");
  bad("an empty end of words", kBpe, R"({"type":"Fuse"})", R"({"type":"BPEDecoder","suffix":""})",
      "the end of words; found an empty text");
  bad("a class that engines read otherwise", kBpe, R"(\\p{L}+|)", R"([[:alpha:]]+|)", "without [:alpha:]");
  bad("an escape that engines read otherwise", kBpe, R"(\\p{L}+|)", R"(\\Q+|)", "the letter for Oniguruma");
  bad("a class that does not end", kBpe, R"(\\p{L}+|)", R"([\\p{L}+|)", "a class without its end");
  bad("an id outside the vocabulary around a text", kBpe, R"("ids":[6])", R"("ids":[7])", "7");
  bad("a template without its token", kBpe, R"("special_tokens":{"<s>")", R"("special_tokens":{"<t>")", "<s>");
  bad("an expression that is none", kBpe, R"(\\p{L}+|)", R"((\\p{L}+|)", "Regex");
  bad("an unknown class of characters", kBpe, R"(\\p{L})", R"(\\p{Lx})", "which PCRE2 does not know");
  bad("a probability that is text", kUnigram, "-3.5", R"("-3.5")", "vocab");
  bad("an unk_id outside the vocabulary", kUnigram, R"("unk_id":0)", R"("unk_id":6)", "unk_id");
  bad("truncation to less than nothing", kWordPiece, R"("max_length":9)", R"("max_length":-9)", "max_length");
  bad("a flag that is a number", kBpe, R"("fuse_unk":true)", R"("fuse_unk":1)", "fuse_unk");
  bad("dropout", kBpe, R"("dropout":null)", R"("dropout":0.5)", "dropout");
}

void add_tokenizer_config(Cases& cases) {
  const std::string good =
      R"({"tokenizer_class":"BertTokenizer","do_lower_case":true,"strip_accents":null,"tokenize_chinese_chars":true,)"
      R"("truncation_side":"left","model_max_length":512,"unk_token":"[UNK]","sep_token":{"content":"[SEP]",)"
      R"("lstrip":false},"additional_special_tokens":["[X]"],"added_tokens_decoder":{"9":{"content":"[NEW]",)"
      R"("special":true},"10":{"content":"word","single_word":true}}})";
  cases.good("tokenizer_config", "BERT", good);
  cases.good("tokenizer_config", "nothing", "{}");
  const auto bad = [&](std::string_view kind, std::string_view from, std::string_view to, std::string_view reason) {
    cases.bad("tokenizer_config", kind, replaced(good, from, to), reason);
  };
  cases.bad("tokenizer_config", "empty", "", "line 1, column 1");
  cases.bad("tokenizer_config", "a list", "[]", "an object");
  cases.bad("tokenizer_config", "not closed", good.substr(0, 60), "column 61");
  bad("another class", "BertTokenizer", "BertJapaneseTokenizer", "BertJapaneseTokenizer");
  bad("a class that is no text", R"("BertTokenizer")", "7", "tokenizer_class");
  bad("a flag that is no flag", R"("do_lower_case":true)", R"("do_lower_case":"yes")", "do_lower_case");
  bad("another side", R"("left")", R"("middle")", "truncation_side");
  bad("an unknown token that is not there", R"("unk_token":"[UNK]")", R"("unk_token":"[UNC]")", "[UNC]");
  bad("a token that is no text", R"("unk_token":"[UNK]")", R"("unk_token":[1])", "unk_token");
  bad("a token without content", R"("content":"[SEP]",)", "", "content");
  bad("an empty token around a text", R"("content":"[SEP]")", R"("content":"")", R"(the token "")");
  bad("further tokens that are no list", R"(["[X]"])", R"("[X]")", "additional_special_tokens");
  bad("a further token that is a number", R"(["[X]"])", "[3]", "additional_special_tokens");
  bad("an id that is no number", R"("9":)", R"("nine":)", "nine");
  bad("a negative id", R"("9":)", R"("-9":)", "-9");
  bad("an id beyond 32 bits", R"("9":)", R"("99999999999":)", "99999999999");
  bad("a gap between ids", R"("10":)", R"("12":)", "12");
  bad("an added token that is a text", R"({"content":"[NEW]","special":true})", R"("[NEW]")", "9");
}

void add_encode(Cases& cases) {
  cases.good("encode", "awkward text",
             "Hello, world!  It's  a dog's life\xe2\x80\xa6 \xe4\xbd\xa0\xe5\xa5\xbd "
             "\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9\n"
             "e\xcc\x81\xcc\xa3\xe1\x84\x80\xe1\x85\xa1 \xef\xac\x81 [CLS]<s> \xe2\x96\x81 1234567890\t3.14\n");
  cases.good("encode", "a character that is dropped, first", "\x01... 0\n");
  cases.bad("encode", "a lone continuation byte", "a\n\x80\n", "line 2");
  cases.bad("encode", "half a character", "abc\xe4\xbd", "line 1");
  cases.bad("encode", "an overlong space", "a\xc0\xa0", "line 1");
  cases.bad("encode", "a surrogate", "a\n\n\xed\xa0\x80", "line 3");
  cases.bad("encode", "beyond Unicode", "\xf4\x90\x80\x80", "line 1");
}

}  // namespace

void add_tokenizers(Cases& cases) {
  add_tokenizer_json(cases);
  add_tokenizer_config(cases);
  add_encode(cases);
}

}  // namespace heed::malformed
