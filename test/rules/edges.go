package rules

import (
	"fmt"
	"path"
	"strings"
)

// module is the import path prefix of everything in this repository.
const module = "github.com/berth-scheduler/berth/"

// edge restricts where an outside package may be imported.
type edge struct {
	// prefix is an import path; it and what lies below it are meant.
	prefix string
	// except are paths below prefix that any package may import: they are pure.
	except []string
	// only are the folders that may import it. Empty: no folder may.
	only []string
	// tests allows imports by _test.go files anywhere and by test support.
	tests bool
	// why becomes part of the message.
	why string
}

// edges are the borders of the outside world. The local cluster driver under tools/ and the whole-system tests under
// test/ are exempt, except from edges that no folder may cross.
var edges = []edge{
	{
		prefix: "github.com/nats-io/nats.go", only: []string{"pkg/events/jetstream"},
		why: "the log has one importer, so that its delivery rules are stated once: use pkg/events",
	},
	{
		prefix: "github.com/nats-io/nats-server", only: []string{"cmd/berth"}, tests: true,
		why: "only the binary embeds servers; services get a pkg/events.Log",
	},
	{
		prefix: "go.etcd.io/etcd/client", only: []string{"pkg/ledger/etcd"},
		why: "the ledger has one importer, so that the protocol has one set of transactions: use pkg/ledger",
	},
	{
		prefix: "go.etcd.io/etcd/server", only: []string{"cmd/berth"}, tests: true,
		why: "only the binary embeds servers; services get a pkg/ledger.Store",
	},
	{
		prefix: "k8s.io/client-go/rest",
		only: []string{
			"cmd/berth", "services/queue", "services/binder", customPlugins,
		},
		tests: true,
		why:   "a rest.Config is a credential: only the queue (reads) and the binder (writes) hold one, and users' plugins",
	},
	{
		prefix: "k8s.io/metrics/pkg/client", only: []string{"services/queue/intake"}, tests: true,
		why: "the queue is the only reader of Kubernetes: read use from the facts",
	},
	{
		prefix: "k8s.io/client-go/tools/clientcmd", only: []string{"cmd/berth"}, tests: true,
		why: "the binary reads kubeconfig files, services get a rest.Config",
	},
	{
		prefix: "k8s.io/client-go/tools/cache", only: []string{"services/queue/intake"}, tests: true,
		why: "the queue is the only lister and watcher of Kubernetes: read facts from the log",
	},
	{
		prefix: "k8s.io/client-go/tools/events",
		only:   []string{"services/binder/commit", customPlugins}, tests: true,
		why: "the binder is the only writer of Kubernetes (invariant I12): append a decision to the log",
	},
	{
		prefix: "k8s.io/client-go", except: pureClientGo,
		// The binary's audit command reads the API server itself: it checks the services, so it
		// must not believe them.
		only: []string{
			"services/queue/intake", "services/binder/commit", "cmd/berth", customPlugins,
		},
		tests: true,
		why:   "Kubernetes is read by services/queue/intake and written by services/binder/commit",
	},
	{
		prefix: "k8s.io/kubernetes", only: []string{"test/conformance", "tools/cluster"},
		why: "the upstream scheduler is the oracle of test/conformance and cannot be a dependency of a library",
	},
	{
		prefix: "sigs.k8s.io/descheduler", only: []string{"test/conformance", "tools/cluster"},
		why: "the upstream descheduler is the oracle of test/conformance, not a dependency",
	},
	{prefix: "github.com/stretchr/testify", why: oneTestStyle},
	{prefix: "github.com/onsi", why: oneTestStyle},
	{prefix: "go.uber.org/mock", why: oneTestStyle},
	{prefix: "github.com/golang/mock", why: oneTestStyle},
	{prefix: "io/ioutil", why: "deprecated since Go 1.16: use io and os"},
	{prefix: "github.com/pkg/errors", why: "errors are wrapped with fmt.Errorf and %w"},
}

// customPlugins hands users' plugins the clients that upstream's interface promises them.
const customPlugins = "services/scheduler/plugins"

const oneTestStyle = "tests use testing, go-cmp and rapid; fakes are in-memory twins that pass the contract suite"

// pureClientGo are the parts of client-go that do no I/O.
var pureClientGo = []string{
	"k8s.io/client-go/kubernetes/scheme",
	"k8s.io/client-go/tools/clientcmd/api",
	"k8s.io/client-go/util/cert",
	"k8s.io/client-go/util/keyutil",
	"k8s.io/client-go/util/workqueue",
}

// layers lists which of our own packages a folder may import, most specific folder first. A folder that matches
// nothing may import anything the service and command rules allow.
var layers = []layer{
	// How long an answer is waited for is about neither.
	{dir: "pkg/events/jetstream", mayImport: []string{"pkg/events", "pkg/adaptivetimeout"}},
	{dir: "pkg/events", mayImport: []string{"pkg/events"}},
	// The loop knows no domain: it is parameterized by the code that it drives.
	{dir: "pkg/driver", mayImport: []string{"pkg/driver", "pkg/telemetry"}},
	{dir: "pkg/telemetry", mayImport: []string{"pkg/telemetry", "pkg/events"}},
	{dir: "pkg/state", mayImport: []string{"pkg/state", "pkg/events"}},
	{dir: "pkg/placement/rule", mayImport: []string{"pkg/placement/rule", "pkg/state", "pkg/events"}},
	{dir: "pkg/placement/config", mayImport: []string{"pkg/placement", "pkg/strictyaml"}},
	{dir: "pkg/placement", mayImport: []string{"pkg/placement", "pkg/state", "pkg/events"}},
	{dir: "pkg", mayImport: []string{"pkg"}},
}

type layer struct {
	dir       string
	mayImport []string
}

func edgeRules() []Rule {
	return []Rule{
		{
			Name:  "edges",
			Why:   "an outside world with one importer can be replaced, faked and reasoned about",
			Check: checkOutside,
		},
		{
			Name:  "services",
			Why:   "services meet in pkg/ only, so that each can be run, scaled and replaced on its own",
			Check: checkServices,
		},
		{
			Name:  "layers",
			Why:   "what happened (events) knows nothing of what is true (state), which knows nothing of where a pod may go",
			Check: checkLayers,
		},
	}
}

func checkOutside(repo *Repo) []Finding {
	var found []Finding
	for _, file := range repo.Go {
		for _, imp := range repo.imports(file) {
			if border := edgeOf(imp.path); border != nil && !border.allows(file) {
				found = append(found, Finding{
					Path: file.Path, Line: imp.line,
					Detail: imp.path + " imported here", Why: border.why,
				})
			}
		}
	}
	return found
}

// edgeOf returns the first edge that speaks of an import path.
func edgeOf(importPath string) *edge {
	for i, e := range edges {
		if within(importPath, e.prefix) {
			if withinAny(importPath, e.except) {
				return nil
			}
			return &edges[i]
		}
	}
	return nil
}

func (e *edge) allows(f *GoFile) bool {
	if withinAny(f.Dir, e.only) {
		return true
	}
	if len(e.only) == 0 {
		return false
	}
	if within(f.Dir, "tools") {
		return true
	}
	// The upstream oracles are kept out even of tests: they would change the versions of
	// everything else in the workspace.
	forbidden := e.prefix == "k8s.io/kubernetes" || e.prefix == "sigs.k8s.io/descheduler"
	return !forbidden && (within(f.Dir, "test") || (e.tests && supportsTests(f)))
}

// supportsTests reports whether f is a test file or a file of a test support package, named after its subject as in
// statetest.
func supportsTests(f *GoFile) bool {
	return f.Test || strings.HasSuffix(path.Base(f.Dir), "test")
}

func checkServices(repo *Repo) []Finding {
	var found []Finding
	for _, file := range repo.Go {
		own := serviceOf(file.Dir)
		for _, imp := range repo.imports(file) {
			target, ours := strings.CutPrefix(imp.path, module)
			if ours && insideService(target) && own != serviceOf(target) && !withinAny(file.Dir, []string{"test", "tools"}) {
				found = append(found, Finding{
					Path: file.Path, Line: imp.line,
					Detail: fmt.Sprintf("%s imported here: only its own service and tests may", target),
				})
			}
			if !ours || own == "" {
				continue
			}
			if other := serviceOf(target); other != "" && other != own {
				found = append(found, Finding{
					Path: file.Path, Line: imp.line,
					Detail: fmt.Sprintf("service %s imports service %s", own, other),
				})
			}
			if within(target, "cmd") || within(target, "test") || within(target, "tools") {
				found = append(found, Finding{
					Path: file.Path, Line: imp.line,
					Detail: fmt.Sprintf("service %s imports %s", own, target),
				})
			}
		}
	}
	return found
}

// serviceOf is the service a folder belongs to, empty for none.
func serviceOf(dir string) string {
	rest, ok := strings.CutPrefix(dir, "services/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// servicePackages are the packages below a service that programs may import: the interface for custom plugins, and the
// repetition of recorded decisions.
var servicePackages = []string{"services/scheduler/plugins", "services/scheduler/rerun"}

// insideService reports whether a folder is a part of a service. Tests step the cores themselves; programs run the
// service.
func insideService(dir string) bool {
	return withinPattern(dir, "services/*/*") && !withinAny(dir, servicePackages)
}

func checkLayers(repo *Repo) []Finding {
	var found []Finding
	for _, file := range repo.Go {
		own := layerOf(file.Dir)
		if own == nil || file.Test {
			continue
		}
		for _, imp := range repo.imports(file) {
			target, ours := strings.CutPrefix(imp.path, module)
			seed := target == seeds && supportsTests(file)
			if ours && !seed && !withinAny(target, own.mayImport) {
				found = append(found, Finding{
					Path: file.Path, Line: imp.line,
					Detail: fmt.Sprintf("%s imports %s; it may import only %s",
						own.dir, target, strings.Join(own.mayImport, ", ")),
				})
			}
		}
	}
	return found
}

func layerOf(dir string) *layer {
	for i, l := range layers {
		if within(dir, l.dir) {
			return &layers[i]
		}
	}
	return nil
}
