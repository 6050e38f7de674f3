package build

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// checkout lays out a repository whose only module is a program of its own.
func checkout(t *testing.T) (Layout, Target) {
	t.Helper()
	layout := Layout{Root: t.TempDir()}
	target := Target{
		Name: "hello", Module: "hello", Package: "example.com/hello", Own: true,
		LDFlags: stripped, Cold: time.Minute,
	}
	dir := layout.ModuleDir(target)
	write(t, filepath.Join(dir, "go.mod"), "module example.com/hello\n\ngo 1.26.0\n")
	write(t, filepath.Join(dir, "main.go"), "package main\n\nfunc main() {}\n")
	return layout, target
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestBuildOnlyWhatChanged(t *testing.T) {
	layout, target := checkout(t)
	dir := layout.ModuleDir(target)
	build := func() string {
		t.Helper()
		var out bytes.Buffer
		err := Builder{Layout: layout, Out: &out}.Build(t.Context(), []Target{target})
		if err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	expect := func(why string, output, want string) {
		t.Helper()
		if !strings.Contains(output, want) {
			t.Errorf("%s: the output is %q, want it to contain %q", why, output, want)
		}
	}
	expect("nothing is built yet", build(), "hello done in")
	expect("nothing changed", build(), "hello is up to date")
	write(t, filepath.Join(dir, "notes.md"), "not code\n")
	write(t, filepath.Join(dir, "main_test.go"), "package main\n")
	write(t, filepath.Join(dir, "nested", "go.mod"), "module example.com/other\n")
	write(t, filepath.Join(dir, "nested", "other.go"), "package other\n")
	expect("what changed is not part of the program", build(), "hello is up to date")
	write(t, filepath.Join(dir, "main.go"), "package main\n\nfunc main() { println() }\n")
	expect("a source file changed", build(), "hello done in")
	target.Uses = []string{"../library"}
	library := filepath.Join(dir, "..", "library", "library.go")
	write(t, library, "package library\n")
	expect("a module is used", build(), "hello done in")
	expect("nothing changed in it", build(), "hello is up to date")
	write(t, library, "package library\n\nvar _ = 0\n")
	expect("a source file of it changed", build(), "hello done in")
	target.LDFlags += " -X main.a=b"
	expect("the flags changed", build(), "hello done in")
	target.Tags = "small"
	expect("a build tag is set", build(), "hello done in")
	write(t, filepath.Join(layout.BinDir(), "hello"), "cut short")
	expect("the program is not the one that was built", build(), "hello done in")
	if err := os.Remove(filepath.Join(layout.BinDir(), "hello")); err != nil {
		t.Fatal(err)
	}
	expect("the program is gone", build(), "hello done in")
	if _, err := layout.Program("hello"); err != nil {
		t.Error(err)
	}
}

func TestAFailedBuildShowsWhyAndIsRepeated(t *testing.T) {
	layout, target := checkout(t)
	write(t, filepath.Join(layout.ModuleDir(target), "main.go"), "package main\n\nfunc main() { missing() }\n")
	for range 2 {
		err := Builder{Layout: layout, Out: &bytes.Buffer{}}.Build(t.Context(), []Target{target})
		if err == nil || !strings.Contains(err.Error(), "undefined: missing") {
			t.Errorf("the error is %v, want the compiler's", err)
		}
	}
	if _, err := layout.Program("hello"); err == nil || !strings.Contains(err.Error(), "build hello") {
		t.Errorf("the error is %v, want it to say how to build", err)
	}
}

func TestSelect(t *testing.T) {
	for _, test := range []struct{ names, want string }{
		{"apiserver", "kube-apiserver kube-controller-manager"},
		{"stores kwok", "etcd nats-server kwok"},
		{"kube-apiserver apiserver", "kube-apiserver kube-controller-manager"},
		{"peers", "kube-scheduler descheduler"},
		{"all-but-peers", "cluster etcd nats-server kwok kube-apiserver kube-controller-manager kubectl"},
		{"all", "cluster etcd nats-server kwok kube-apiserver kube-controller-manager kubectl kube-scheduler descheduler"},
		{"karpenter", "karpenter"},
		{"kubernetes-1.35", "kube-apiserver-1.35 kube-controller-manager-1.35 kube-scheduler-1.35"},
	} {
		targets, err := Select(strings.Fields(test.names))
		if err != nil {
			t.Errorf("%s: %v", test.names, err)
		}
		var got []string
		for _, target := range targets {
			got = append(got, target.Name)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s selects %v, want %s", test.names, got, test.want)
		}
	}
	if _, err := Select([]string{"kubelet"}); err == nil || !strings.Contains(err.Error(), "all-but-peers") {
		t.Errorf("the error is %v, want it to list the names", err)
	}
}

func TestTheVersionIsLinkedIn(t *testing.T) {
	flags := kubernetesLDFlags(kubernetesVersion)
	for _, want := range []string{"gitVersion=v1.36.3", "gitMajor=1 ", "gitMinor=36 "} {
		if !strings.Contains(flags, want) {
			t.Errorf("the linker flags are %q, want %q among them", flags, want)
		}
	}
	pins(t, "kubernetes", kubernetesVersion)
	pins(t, "peers/kube-scheduler", kubernetesVersion)
	for _, version := range olderVersions {
		pins(t, "kubernetes-"+minorOf(version), version)
	}
}

// pins checks that a module requires a release of Kubernetes, and of the
// modules of its repository the versions that belong to it.
func pins(t *testing.T, module, version string) {
	t.Helper()
	mod, err := os.ReadFile(filepath.Join("../..", module, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"k8s.io/kubernetes", "v" + version}
	staging := "v0" + strings.TrimPrefix(version, "1")
	pinned := false
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		pinned = pinned || len(fields) >= 2 && slices.Equal(fields[:2], want)
		if strings.HasPrefix(line, "replace k8s.io/") && fields[len(fields)-1] != staging {
			t.Errorf("the module %s has %q, want %s at its end", module, strings.TrimSpace(line), staging)
		}
	}
	if !pinned {
		t.Errorf("the module %s does not pin %v", module, want)
	}
}

func TestProgramsOfOlderVersions(t *testing.T) {
	for _, test := range []struct{ minor, name, want string }{
		{"", "kube-apiserver", "kube-apiserver"},
		{"1.35", "kube-apiserver", "kube-apiserver-1.35"},
		{"1.34", "kube-scheduler", "kube-scheduler-1.34"},
		{"1.35", "kwok", "kwok"},
		{"1.35", "descheduler", "descheduler"},
	} {
		if got := ProgramOf(test.minor, test.name); got != test.want {
			t.Errorf("of version %q, %s is %s, want %s", test.minor, test.name, got, test.want)
		}
	}
}

func TestTranscriptCountsDownloads(t *testing.T) {
	log := &transcript{}
	if got := log.downloads(); got != "" {
		t.Errorf("before any download a heartbeat says %q", got)
	}
	for _, line := range []string{"go: downloading a v1\n", "go: downloading b v2\n", "broken.go:1: no\n"} {
		if _, err := log.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if got := log.downloads(); got != ", 2 modules downloaded" {
		t.Errorf("a heartbeat says %q", got)
	}
	if got := log.text(); got != "broken.go:1: no\n" {
		t.Errorf("the error text is %q", got)
	}
}
