//! Members and other small declarations of every language are found by their names.

use acp_code::StopSignal;
use acp_code::extract::ExtractRequest;

use super::Tree;

/// A file, its text, and what is asked of it: a name and the line of its declaration, or none.
type Case = (&'static str, &'static str, &'static [(&'static str, Option<usize>)]);

const CASES: &[Case] = &[
    ("a.rs", "fn r#match() {}\nfn next() {}\n", &[("match", Some(1)), ("r#match", Some(1))]),
    (
        "a.ts",
        "enum Color {\n  Red,\n  Green = 2,\n  'dark-blue',\n}\n\
         namespace NS {\n  export const v = 1;\n  const w = 2;\n  export enum Inner {\n    One,\n  }\n}\n\
         declare const dc: number;\n\
         declare module 'foo' {\n  export const mv: number;\n}\n\
         declare global {\n  var gv: number;\n}\n\
         class Q {\n  #priv = 1;\n  constructor(\n    private readonly dep: Dep,\n    plain: number,\n  ) {\n    this.made = 1;\n    const local = 1;\n  }\n  run() {\n    this.other = 1;\n  }\n}\n\
         const obj = {\n  key: 1,\n  nest: {\n    deep: 1,\n  },\n};\n",
        &[
            ("Color.Red", Some(2)),
            ("Color.Green", Some(3)),
            ("Color.dark-blue", Some(4)),
            ("NS.v", Some(7)),
            ("NS.w", Some(8)),
            ("NS.Inner.One", Some(10)),
            ("dc", Some(13)),
            ("mv", Some(15)),
            ("gv", Some(18)),
            ("Q.#priv", Some(21)),
            ("Q.priv", Some(21)),
            ("Q.dep", Some(23)),
            ("Q.made", Some(26)),
            ("plain", None),
            ("local", None),
            ("other", None),
            ("obj.key", Some(34)),
            ("obj.nest.deep", Some(36)),
        ],
    ),
    ("a.tsx", "enum Color {\n  Red,\n}\n", &[("Color.Red", Some(2))]),
    (
        "a.js",
        "exports.ex = 1;\nmodule.exports = {\n  mk: 1,\n};\nconfig.debug = true;\nif (x) {\n  var cond = 1;\n}\n\
         const one = 1, two = 2;\n\
         function parse() {}\nexports.parse = parse;\nrun({ parse: 1 });\n",
        &[
            ("parse", Some(10)),
            ("ex", Some(1)),
            ("mk", Some(3)),
            ("debug", None),
            ("cond", Some(7)),
            ("one", Some(9)),
        ],
    ),
    (
        "a.py",
        "type Al = int\n[E1, E2] = 1, 2\n*Rest, Last = x\n\
         class K:\n    def __init__(self):\n        self.inst = 1\n        local = 1\n    def m(self):\n        self.late = 1\nos.name = 1\n",
        &[
            ("Al", Some(1)),
            ("E2", Some(2)),
            ("Rest", Some(3)),
            ("K.inst", Some(6)),
            ("local", None),
            ("late", None),
            ("name", None),
        ],
    ),
    (
        "a.go",
        "package a\ntype (\n\tD int\n\tE = D\n)\ntype S struct {\n\tEmb\n\t*pkg.Far\n\tGen[T]\n}\ntype B = S\n",
        &[
            ("D", Some(3)),
            ("E", Some(4)),
            ("S.Emb", Some(7)),
            ("S.Far", Some(8)),
            ("S.Gen", Some(9)),
            ("B", Some(11)),
        ],
    ),
    ("A.java", "record R(int x) {\n  R {\n  }\n}\n", &[("R.R", Some(2)), ("R.x", Some(1))]),
    (
        "a.c",
        "typedef struct Tag *T1,\n  *T2;\nstruct Fwd;\nstruct Here;\nstruct Here {\n  int x; };\nstruct Used *used;\n",
        &[("T2", Some(1)), ("Fwd", Some(3)), ("Here", Some(5)), ("Used", None), ("used", Some(7))],
    ),
    (
        "a.cpp",
        "enum class F : int;\nclass Fwd;\nnamespace Short = N::M;\nauto [b1, b2] = pair;\nnamespace N2::M2 {\n  int nn;\n}\n",
        &[
            ("F", Some(1)),
            ("Fwd", Some(2)),
            ("Short", Some(3)),
            ("b2", Some(4)),
            ("N2.M2", Some(5)),
            ("N2.M2.nn", Some(6)),
        ],
    ),
    (
        "a.cs",
        "using Al = System.Int32;\nusing System;\nnamespace N;\nrecord R(int X);\nclass K {\n  event Action Ev { add {} remove {} }\n\
           ~K() {}\n  int this[int i] => 1;\n  public static K operator +(K a, K b) => a;\n  public static implicit operator int(K a) => 1;\n  int size = 1;\n}\n",
        &[
            ("Al", Some(1)),
            ("System", None),
            ("N", Some(3)),
            ("R.X", Some(4)),
            ("K.Ev", Some(6)),
            ("K.~K", Some(7)),
            ("K.this", Some(8)),
            ("K.operator+", Some(9)),
            ("K.operator +", Some(9)),
            ("K.operator int", Some(10)),
            ("i", None),
            ("int", None),
            ("K.size", Some(11)),
        ],
    ),
    (
        "a.rb",
        "X ||= 4\n$glob = 3\nclass M::K\n  attr_accessor :acc, :more\n  attr_writer 'wr'\n  alias al m\n  alias_method :al2, :m\n\
           define_method(:dm) { 1 }\n  @@cv = 3\n  puts :said\n  def initialize\n    @iv = 1\n    local = 1\n  end\n  def m\n    @late = 1\n  end\nend\n",
        &[
            ("X", Some(1)),
            ("glob", Some(2)),
            ("$glob", Some(2)),
            ("K.more", Some(4)),
            ("M.K.acc", Some(4)),
            ("K.wr", Some(5)),
            ("K.al", Some(6)),
            ("K.al2", Some(7)),
            ("K.dm", Some(8)),
            ("K.cv", Some(9)),
            ("K.iv", Some(12)),
            ("said", None),
            ("local", None),
            ("late", None),
        ],
    ),
    (
        "a.php",
        "<?php\ndefine('DEF', 1);\n$var = 1;\ntrait T {\n  public $prop = 1;\n}\nclass K {\n  public function __construct(\n    private int $prom,\n    int $plain) {\n    $local = 1;\n  }\n}\n",
        &[
            ("DEF", Some(2)),
            ("var", Some(3)),
            ("$var", Some(3)),
            ("T.prop", Some(5)),
            ("T.$prop", Some(5)),
            ("K.prom", Some(9)),
            ("plain", None),
            ("local", None),
        ],
    ),
    (
        "a.swift",
        "let (t1, t2) = (1, 2)\nprotocol P {\n  var v: Int { get }\n  associatedtype AT = Int\n}\n\
         class C {\n  deinit {}\n  subscript(i: Int) -> Int { 1 }\n}\n\
         infix operator +++: Prec\nprecedencegroup Prec { higherThan: X }\nmacro mac() = #ext(x: 1)\n",
        &[
            ("t2", Some(1)),
            ("P.v", Some(3)),
            ("P.AT", Some(4)),
            ("Int", None),
            ("C.deinit", Some(7)),
            ("C.subscript", Some(8)),
            ("+++", Some(10)),
            ("Prec", Some(11)),
            ("mac", Some(12)),
        ],
    ),
    (
        "a.kt",
        "fun String.extf() {}\nval String.extp: Int get() = 1\nclass K {\n  constructor(x: String)\n  val size: Long = 1\n}\n",
        &[
            ("String.extf", Some(1)),
            ("String.extp", Some(2)),
            ("K.constructor", Some(4)),
            ("K.size", Some(5)),
            ("Long", None),
        ],
    ),
    (
        "a.sh",
        "declare -i INT\nalias ll='ls -l'\nexport OUT\necho a=b\n",
        &[("INT", Some(1)), ("ll", Some(2)), ("OUT", None), ("a", None)],
    ),
    ("a.json", "{\n  \"a.b\": {\n    \"c\": 1 } }\n", &[("a.b", Some(2)), ("a.b.c", Some(3))]),
    (
        "a.yaml",
        "flow: {\n  one: 1,\n  two: { three: 3 } }\na.b: 1\n",
        &[("flow.one", Some(2)), ("flow.two.three", Some(3)), ("a.b", Some(4))],
    ),
    (
        "a.html",
        "<div>\n<p id=\"main\" class=\"wide\">x</p>\n<br id=gap>\n<script id='code'>f()</script>\n</div>\n",
        &[("main", Some(2)), ("#main", Some(2)), ("gap", Some(3)), ("code", Some(4)), ("wide", None)],
    ),
    (
        "a.css",
        ":root {\n  --wide: 1px;\n  color: red;\n}\n#id { top: 0 }\nh1::before { top: 0 }\n@keyframes spin { from { top: 0 } }\n\
         @layer base { .l { top: 0 } }\n@font-face { top: 0 }\n",
        &[
            ("--wide", Some(2)),
            ("color", None),
            ("#id", Some(5)),
            ("h1::before", Some(6)),
            ("spin", Some(7)),
            ("base", Some(8)),
            ("@font-face", Some(9)),
        ],
    ),
];

#[test]
fn members_of_every_language_are_found_by_their_names() {
    let files: Vec<(&str, &str)> = CASES.iter().map(|(file, text, _)| (*file, *text)).collect();
    let tree = Tree::new(&files);
    let mut wrong = Vec::new();
    for (file, _, names) in CASES {
        for (name, line) in *names {
            let wanted = format!("{file}#{name}");
            let request = ExtractRequest::new([&wanted]);
            let found = tree.engine.extract(&request, &StopSignal::never()).expect("pieces").results;
            let found: Vec<_> = found.iter().map(|piece| piece.lines.map(|lines| lines[0])).collect();
            if found != [*line] {
                wrong.push(format!("{wanted}: {found:?} instead of {line:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
