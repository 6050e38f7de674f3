package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/berth-scheduler/berth/test/rules"
)

// planted is a small checkout with one violation of one rule, or with something that looks like
// one and is not.
type planted struct {
	name string
	// path and source are the file under test; doc.go is added next to it.
	path, source string
	// rule is the rule that must report a finding; empty: none may.
	rule string
	// line is where, counted from 1; 0 leaves it open.
	line int
}

func TestRulesCatchPlantedViolations(t *testing.T) {
	all := slices.Concat(plantedEdges, plantedPurity, plantedSizes, plantedCalls, plantedShapes, plantedTexts)
	for _, p := range all {
		t.Run(strings.ReplaceAll(p.name, " ", "-"), p.run)
	}
}

func (p planted) run(t *testing.T) {
	checkout := fstest.MapFS{p.path: {Data: []byte(p.source)}}
	if dir, ok := strings.CutSuffix(p.path, "x.go"); ok {
		checkout[dir+"doc.go"] = &fstest.MapFile{Data: []byte("// Package x is planted.\npackage x\n")}
	}
	repo, err := rules.Load(checkout)
	if err != nil {
		t.Fatal(err)
	}
	found := rules.Run(repo, rules.All()).Findings
	if p.rule == "" {
		if len(found) > 0 {
			t.Fatalf("clean code gave %v", found)
		}
		return
	}
	if len(found) != 1 {
		t.Fatalf("want exactly one finding of rule %s, got %d: %v", p.rule, len(found), found)
	}
	got := found[0]
	if got.Rule != p.rule || got.Path != p.path || (p.line != 0 && got.Line != p.line) {
		t.Errorf("got %v, want rule %s at %s:%d", got, p.rule, p.path, p.line)
	}
	if got.Why == "" {
		t.Error("the finding does not say why")
	}
}

var plantedEdges = []planted{
	{
		name: "nats outside its adapter", path: "services/queue/x.go", rule: "edges", line: 3,
		source: "package x\n\nimport _ \"github.com/nats-io/nats.go/jetstream\"\n",
	},
	{
		name: "nats in its adapter", path: "pkg/events/jetstream/x.go",
		source: "package x\n\nimport _ \"github.com/nats-io/nats.go/jetstream\"\n",
	},
	{
		name: "etcd client in a service", path: "services/binder/commit/x.go", rule: "edges", line: 3,
		source: "package x\n\nimport _ \"go.etcd.io/etcd/client/v3\"\n",
	},
	{
		name: "clientset in a shard", path: "services/scheduler/intake/x.go", rule: "edges", line: 3,
		source: "package x\n\nimport _ \"k8s.io/client-go/kubernetes\"\n",
	},
	{
		name: "pure part of client-go in a shard", path: "services/scheduler/intake/x.go",
		source: "package x\n\nimport _ \"k8s.io/client-go/kubernetes/scheme\"\n",
	},
	{
		name: "writer in the reader", path: "services/queue/intake/x.go", rule: "edges", line: 3,
		source: "package x\n\nimport _ \"k8s.io/client-go/tools/events\"\n",
	},
	{
		name: "embedded server in a test", path: "pkg/ledger/etcd/x_test.go", rule: "doc",
		source: "package x\n\nimport _ \"go.etcd.io/etcd/server/v3/embed\"\n",
	},
	{
		name: "upstream scheduler in a test", path: "test/e2e/x.go", rule: "edges", line: 3,
		source: "package x\n\nimport _ \"k8s.io/kubernetes/pkg/scheduler\"\n",
	},
	{
		name: "second test framework", path: "test/e2e/x.go", rule: "edges", line: 3,
		source: "package x\n\nimport _ \"github.com/onsi/gomega\"\n",
	},
	{
		name: "service imports service", path: "services/queue/x.go", rule: "services", line: 3,
		source: "package x\n\nimport _ \"github.com/berth-scheduler/berth/services/binder\"\n",
	},
	{
		name: "program imports a service's decisions", path: "cmd/berth/x.go", rule: "services", line: 3,
		source: "package x\n\nimport _ \"github.com/berth-scheduler/berth/services/queue/decide/memory\"\n",
	},
	{
		name: "program imports a part of a service", path: "cmd/berth/x.go", rule: "services", line: 3,
		source: "package x\n\nimport _ \"github.com/berth-scheduler/berth/services/queue/leader\"\n",
	},
	{
		name: "program imports the interface for plugins", path: "cmd/berth/x.go",
		source: "package x\n\nimport _ \"github.com/berth-scheduler/berth/services/scheduler/plugins\"\n",
	},
	{
		name: "test imports a service's decisions", path: "test/sim/x.go",
		source: "package x\n\nimport _ \"github.com/berth-scheduler/berth/services/queue/decide\"\n",
	},
	{
		name: "events import state", path: "pkg/events/x.go", rule: "layers", line: 3,
		source: "package x\n\nimport _ \"github.com/berth-scheduler/berth/pkg/state\"\n",
	},
	{
		name: "library imports service", path: "pkg/membership/x.go", rule: "layers", line: 3,
		source: "package x\n\nimport _ \"github.com/berth-scheduler/berth/services/queue\"\n",
	},
}

var plantedPurity = []planted{
	{
		name: "context in a decision", path: "services/queue/decide/x.go", rule: "pure", line: 3,
		source: "package x\n\nimport _ \"context\"\n",
	},
	{
		name: "clock in placement", path: "pkg/placement/x.go", rule: "pure", line: 5,
		source: "package x\n\nimport \"time\"\n\nvar clock = time.Now\n",
	},
	{
		name: "duration in placement", path: "pkg/placement/x.go",
		source: "package x\n\nimport \"time\"\n\nconst limit = 5 * time.Second\n",
	},
	{
		name: "goroutine's lock in a part of a decision", path: "services/scheduler/decide/attempt/x.go", rule: "pure",
		line:   3,
		source: "package x\n\nimport _ \"sync\"\n",
	},
	{
		name: "channel in a decision", path: "services/binder/decide/x.go", rule: "pure", line: 3,
		source: "package x\n\nvar c chan int\n",
	},
	{
		name: "logging in the ledger protocol", path: "pkg/ledger/x.go", rule: "pure", line: 3,
		source: "package x\n\nimport _ \"log/slog\"\n",
	},
	{
		name: "lock in the state store", path: "pkg/state/x.go",
		source: "package x\n\nimport \"sync\"\n\ntype s struct {\n\tmu struct {\n\t\tsync.Mutex\n\t\tn int\n\t}\n}\n",
	},
	{
		name: "upstream's logger argument", path: "pkg/placement/x.go",
		source: "package x\n\nimport \"k8s.io/klog/v2\"\n\nvar silent klog.Logger\n",
	},
	{
		name: "klog call in placement", path: "pkg/placement/x.go", rule: "pure", line: 5,
		source: "package x\n\nimport \"k8s.io/klog/v2\"\n\nfunc f() { klog.Info(1) }\n",
	},
}

var plantedSizes = []planted{
	{
		name: "long function", path: "pkg/events/x.go", rule: "funlen", line: 3,
		source: "package x\n\nfunc long() {\n" + strings.Repeat("\t_ = 1\n", 71) + "}\n",
	},
	{
		name: "longest function", path: "pkg/events/x.go",
		source: "package x\n\nfunc long() {\n" + strings.Repeat("\t_ = 1\n", 70) + "}\n",
	},
	{
		name: "waived long function", path: "pkg/events/x.go",
		source: "package x\n\n//nolint:funlen // one table\nfunc long() {\n" + strings.Repeat("\t_ = 1\n", 71) + "}\n",
	},
	{
		name: "long file", path: "pkg/events/x.go", rule: "filesize",
		source: "package x\n" + strings.Repeat("\n", 500),
	},
	{
		name: "wide interface", path: "pkg/events/x.go", rule: "interfacebloat", line: 3,
		source: "package x\n\ntype wide interface {\n\tA()\n\tB()\n\tC()\n\tD()\n\tE()\n\tF()\n}\n",
	},
	{
		name: "wide struct", path: "pkg/events/x.go", rule: "structsize", line: 3,
		source: "package x\n\ntype wide struct {\n\ta, b, c, d, e, f, g, h, i, j int\n" +
			"\tk, l, m, n, o, p, q, r, s, t, u int\n}\n",
	},
	{
		name: "many parameters", path: "pkg/events/x.go", rule: "paramcount", line: 3,
		source: "package x\n\nfunc f(a, b, c, d, e, g int) {}\n",
	},
	{
		name: "deep nesting", path: "pkg/events/x.go", rule: "nesting", line: 7,
		source: "package x\n\nfunc f() {\n\tfor {\n\t\tif true {\n\t\t\tif true {\n" +
			"\t\t\t\tif true {\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n}\n",
	},
	{
		name: "else-if chain and event loop", path: "pkg/events/x.go",
		source: "package x\n\nfunc f() {\n\tfor {\n\t\tselect {\n\t\tdefault:\n\t\t\tif true {\n\t\t\t} else if false {\n" +
			"\t\t\t\tif true {\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n}\n",
	},
	{
		name: "many methods", path: "pkg/events/x.go", rule: "methodcount", line: 5,
		source: "package x\n\ntype x int\n\n" + numbered("func (x) m%d() {}\n\n", 41),
	},
	{
		name: "large package", path: "pkg/events/doc.go", rule: "pkgsize", line: 1,
		source: "//nolint:filesize // one table\n\n// Package x is planted.\npackage x\n" + strings.Repeat("\n", 3999),
	},
	{
		name: "many exports", path: "pkg/state/x.go", rule: "exports", line: 1,
		source: "package x\n\n" + numbered("// V%[1]d is planted.\nvar V%[1]d int\n\n", 101),
	},
	{
		name: "wide assignment", path: "pkg/events/x.go", rule: "wideassign", line: 6,
		source: "package x\n\nfunc f() {\n\ta, b := 1, 2\n\tb, a = a, b\n\ta, b, c := 1, 2, 3\n\tg(a, b, c)\n}\n",
	},
	{
		name: "long line", path: "pkg/events/x.go", rule: "lll", line: 3,
		source: "package x\n\n// " + strings.Repeat("x", 118) + "\n",
	},
}

// numbered repeats a text with a number in it.
func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

var plantedCalls = []planted{
	{
		name: "sleep", path: "services/queue/x.go", rule: "sleep", line: 5,
		source: "package x\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n",
	},
	{
		name: "sleep in a bubble", path: "services/queue/x.go",
		source: "package x\n\nimport (\n\t\"testing/synctest\"\n\t\"time\"\n)\n\n" +
			"func f() { synctest.Test(nil, func() { time.Sleep(1) }) }\n",
	},
	{
		name: "print in a service", path: "services/queue/x.go", rule: "print", line: 5,
		source: "package x\n\nimport \"fmt\"\n\nfunc f() { fmt.Println() }\n",
	},
	{
		name: "print in a command", path: "cmd/berth/x.go",
		source: "package x\n\nimport \"fmt\"\n\nfunc f() { fmt.Println() }\n",
	},
	{
		name: "background in a library", path: "pkg/membership/x.go", rule: "background", line: 5,
		source: "package x\n\nimport \"context\"\n\nvar c = context.Background()\n",
	},
	{
		name: "exit in a library", path: "pkg/membership/x.go", rule: "exit", line: 5,
		source: "package x\n\nimport \"os\"\n\nfunc f() { os.Exit(1) }\n",
	},
	{
		name: "unseeded draw", path: "test/sim/x.go", rule: "seed", line: 5,
		source: "package x\n\nimport \"math/rand/v2\"\n\nvar n = rand.IntN(3)\n",
	},
	{
		name: "choice of a seed in a test", path: "test/sim/x.go", rule: "seed", line: 5,
		source: "package x\n\nimport \"math/rand/v2\"\n\nvar seed = rand.Uint64()\n",
	},
	{
		name: "choice of a seed for tests", path: "pkg/seedtest/x.go",
		source: "package x\n\nimport \"math/rand/v2\"\n\nvar seed = rand.Uint64()\n",
	},
	{
		name: "rapid with a drawn seed", path: "pkg/drawtest/x.go", rule: "rapid",
		source: "package x\n\nimport _ \"pgregory.net/rapid\"\n",
	},
	{
		name: "rapid with a fixed seed", path: "pkg/drawtest/x.go",
		source: "package x\n\nimport (\n\t_ \"github.com/berth-scheduler/berth/pkg/seedtest\"\n" +
			"\t_ \"pgregory.net/rapid\"\n)\n",
	},
	{
		name: "skipped test", path: "test/e2e/x.go", rule: "skip", line: 5,
		source: "package x\n\nimport \"testing\"\n\nfunc f(t *testing.T) { t.Skip() }\n",
	},
	{
		name: "skipping a reader", path: "test/e2e/x.go",
		source: "package x\n\nfunc f(lines interface{ Skip(int) }) { lines.Skip(3) }\n",
	},
	{
		name: "panic", path: "pkg/events/x.go", rule: "panic", line: 3,
		source: "package x\n\nfunc f() { panic(1) }\n",
	},
	{
		name: "waived panic", path: "pkg/events/x.go",
		source: "package x\n\nfunc f() { panic(1) } //nolint:panic // cannot happen: the switch is exhaustive\n",
	},
	{
		name: "waiver without reason", path: "pkg/events/x.go", rule: "waiver", line: 3,
		source: "package x\n\nvar a int //nolint:unused\n",
	},
	{
		name: "waiver of nothing", path: "pkg/events/x.go", rule: "waiver", line: 3,
		source: "package x\n\nvar a int //nolint:panic // there was one\n",
	},
}

var plantedShapes = []planted{
	{
		name: "vague package", path: "pkg/util/doc.go", rule: "packagename",
		source: "// Package util is planted.\npackage util\n",
	},
	{
		name: "package without doc", path: "pkg/events/y.go", rule: "doc",
		source: "// Package y has its comment in the wrong file.\npackage y\n",
	},
	{
		name: "bare goroutine", path: "tools/cluster/x.go",
		source: "package x\n\nfunc f() { go f() }\n",
	},
	{
		name: "lock beside fields", path: "pkg/events/memlog/x.go", rule: "mu", line: 6,
		source: "package x\n\nimport \"sync\"\n\ntype s struct {\n\tlock sync.Mutex\n\tn int\n}\n",
	},
	{
		name: "goroutines without a leak check", path: "services/queue/x.go", rule: "leak",
		source: "package x\n\nimport _ \"golang.org/x/sync/errgroup\"\n",
	},
}

var plantedTexts = []planted{
	{
		name: "note to self", path: "pkg/events/x.go", rule: "words", line: 3,
		source: "package x\n\n// TO" + "DO: think\n",
	},
	{
		name: "ticket number", path: "docs/x.md", rule: "words", line: 1,
		source: "see #" + "12 for more\n",
	},
	{
		name: "public discussion", path: "docs/x.md",
		source: "see kubernetes/kubernetes#1234 and [a heading](other.md#12-months)\n",
	},
	{
		name: "path of one machine", path: "docs/x.md", rule: "words", line: 1,
		source: "look in `/wo" + "rk/shared/`\n",
	},
	{
		name: "path in the tree", path: "docs/x.md",
		source: "look in pkg/events/wo" + "rk.go and $HOME/wo" + "rk/x\n",
	},
}

func TestABareGoroutineIsFoundOnceInAService(t *testing.T) {
	source := "package x\n\nfunc f() { go f() }\n"
	repo, err := rules.Load(fstest.MapFS{"services/queue/x.go": {Data: []byte(source)}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, finding := range rules.Run(repo, rules.All()).Findings {
		got[finding.Rule]++
	}
	if got["goroutine"] != 1 || got["leak"] != 1 || got["doc"] != 1 || len(got) != 3 {
		t.Errorf("got %v, want one each of goroutine, leak and doc", got)
	}
}

func TestGeneratedFilesAreOnlyReadForText(t *testing.T) {
	source := "// Code generated by a tool. DO NOT EDIT.\n\npackage y\n\nfunc f() { panic(1) } // TO" + "DO\n"
	repo, err := rules.Load(fstest.MapFS{"pkg/events/eventspb/y.pb.go": {Data: []byte(source)}})
	if err != nil {
		t.Fatal(err)
	}
	found := rules.Run(repo, rules.All()).Findings
	if len(found) != 1 || found[0].Rule != "words" {
		t.Errorf("got %v, want one finding of rule words", found)
	}
}

func TestAFileThatDoesNotParseIsAnError(t *testing.T) {
	_, err := rules.Load(fstest.MapFS{"pkg/events/y.go": {Data: []byte("package")}})
	if err == nil || !strings.Contains(err.Error(), "pkg/events/y.go") {
		t.Errorf("got %v, want an error that names the file", err)
	}
}
