#include "inspect/smaller_script.h"

#include <gtest/gtest.h>

namespace heed::inspect {
namespace {

TEST(SmallerScript, LeavesOutWhatOnlyReadersNeed) {
  EXPECT_EQ(smaller_script("// What it is.\nconst a = (b, c) => {\n  // Why.\n  return b + c;  // sum\n};\nrun(a);\n"),
            "let a=(b,c)=>{return b+c};run(a);");
  EXPECT_EQ(smaller_script("f(1,\n  2\n);\n\n\n  g()\n    .h();\n"), "f(1,2);g().h();");
}

TEST(SmallerScript, KeepsTheSpacesThatTheLanguageNeeds) {
  EXPECT_EQ(smaller_script("return typeof a in b;"), "return typeof a in b;");
  EXPECT_EQ(smaller_script("a = b + +c - -d + ++e;"), "a=b+ +c- -d+ ++e;");
  EXPECT_EQ(smaller_script("a++\nb = 1\n[c] = d"), "a++\nb=1\n[c]=d");  // a line end may end a statement
  EXPECT_EQ(smaller_script("const f = () => {}\nconst 名 = 1"), "let f=()=>{}\nlet 名=1");
}

TEST(SmallerScript, ShortensParametersAndFractions) {
  EXPECT_EQ(smaller_script("f((a) => a, async (b) => b, (c, d) => c, () => 0, (e) + f);"),
            "f(a=>a,async b=>b,(c,d)=>c,()=>0,(e)+f);");
  EXPECT_EQ(smaller_script("return 0.5 + 10.5 + a[0] - 0.25 * x0.y;"), "return .5+10.5+a[0]-.25*x0.y;");
}

TEST(SmallerScript, JoinsDeclarations) {
  EXPECT_EQ(smaller_script("const a = 1;\n// b.\nconst b = () => {\n  const c = 2;\n  const d = 3;\n  f();\n  const e "
                           "= 4;\n};\nconst {g} = b;"),
            "let a=1,b=()=>{let c=2,d=3;f();let e=4},{g}=b;");
  EXPECT_EQ(smaller_script("const a = 1\nf();\nconst b = 2;"), "let a=1\nf();let b=2;");
  EXPECT_EQ(smaller_script("for (const a of b) f(a);\nconst c = `${d}`;\nlet e;\nconst f = 1;\nconstant = 2;"),
            "for(let a of b)f(a);let c=`${d}`,e,f=1;constant=2;");
}

TEST(SmallerScript, KeepsStringsTemplatesAndPatterns) {
  for (const char* text :
       {"'a , b // c'", "\"it's = so\"", "'\\' + \\''", "`a  ${b}  // c ${d ? `e  ${f}` : ' g '} }  h`"}) {
    std::string expected = text;
    if (const size_t at = expected.find("d ? "); at != std::string::npos)
      expected = "`a  ${b}  // c ${d?`e  ${f}`:' g '} }  h`";
    EXPECT_EQ(smaller_script(std::string("x = ") + text + ";\n"), "x=" + expected + ";") << text;
  }
  EXPECT_EQ(smaller_script("x = /[/'] \\/ +/u.test(a) ? b / c / d : 'e';"), "x=/[/'] \\/ +/u.test(a)?b/c/d:'e';");
  EXPECT_EQ(smaller_script("const f = (t) => /  '/.test(t);"), "let f=t=>/  '/.test(t);");
}

TEST(SmallerScript, EndsWhereAnUnfinishedScriptEnds) {
  for (const char* text : {"", " ", "//", "'a", "`a", "`${a", "/a", "x = /[", "'\\", "`\\", "}"}) {
    const std::string once = smaller_script(text);
    EXPECT_LE(once.size(), std::string_view(text).size()) << text;
  }
}

}  // namespace
}  // namespace heed::inspect
