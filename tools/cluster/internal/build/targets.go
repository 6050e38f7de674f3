package build

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// kubernetesVersion is the release that the Kubernetes modules pin. It is
// linked into the programs: a build from a module has no git history to take
// it from and would call itself v0.0.0-master.
const kubernetesVersion = "1.36.3"

// olderVersions are the releases of older minor versions that Berth is also tested on, oldest first. The module
// kubernetes-1.35 pins that of 1.35, and its programs have names such as kube-apiserver-1.35.
var olderVersions = []string{"1.34.4", "1.35.4"}

// Target is one program to build.
type Target struct {
	// Name is the file name of the program in the output directory.
	Name string
	// Group is the name under which several programs are asked for together.
	Group string
	// Module is the folder of the module that pins the program, relative to
	// tools/cluster.
	Module string
	// Package is the import path of the program's main package.
	Package string
	// Own means that the package is the module's own code, not a dependency.
	Own bool
	// Uses are folders of other modules of this repository whose code is in the program, relative to Module.
	Uses []string
	// LDFlags are handed to the linker as they are.
	LDFlags string
	// Tags are build tags, separated by commas; empty for none.
	Tags string
	// Cold is about how long a build takes on two cores with empty caches,
	// shown to the user before the wait.
	Cold time.Duration
}

// peerModules are the programs Berth is compared with. Nothing but a
// comparison needs them, so the group names leave them out unless asked.
var peerModules = []string{"kube-scheduler", "descheduler"}

// neighbours is the group of programs that live beside a scheduler. Only their own tests need them.
const neighbours = "neighbours"

// neighbourTargets are pinned by modules below tools/neighbours.
func neighbourTargets() []Target {
	return []Target{
		{
			Name: "karpenter", Group: neighbours, Module: "../neighbours/karpenter", LDFlags: stripped,
			Package: "sigs.k8s.io/karpenter/kwok",
			Cold:    3 * time.Minute,
		},
		{
			Name: "kueue", Group: neighbours, Module: "../neighbours/batch", LDFlags: stripped,
			Package: "sigs.k8s.io/kueue/cmd/kueue",
			Cold:    4 * time.Minute,
		},
		{
			Name: "jobset", Group: neighbours, Module: "../neighbours/batch", LDFlags: stripped,
			Package: "sigs.k8s.io/jobset",
			Cold:    time.Minute,
		},
		{
			Name: "lws", Group: neighbours, Module: "../neighbours/batch", LDFlags: stripped,
			Package: "sigs.k8s.io/lws/cmd",
			Cold:    time.Minute,
		},
	}
}

// Targets lists every program this package can build, in build order.
func Targets() []Target {
	targets := append(currentTargets(), neighbourTargets()...)
	for _, version := range olderVersions {
		targets = append(targets, olderTargets(version)...)
	}
	return targets
}

// olderTargets are the programs of a control plane of an older version.
func olderTargets(version string) []Target {
	module := "kubernetes-" + minorOf(version)
	var targets []Target
	for _, program := range []struct {
		name string
		cold time.Duration
	}{
		{"kube-apiserver", 5 * time.Minute},
		{"kube-controller-manager", 2 * time.Minute},
		{"kube-scheduler", time.Minute},
	} {
		targets = append(targets, Target{
			Name: program.name + "-" + minorOf(version), Group: module, Module: module,
			LDFlags: kubernetesLDFlags(version),
			Package: "k8s.io/kubernetes/cmd/" + program.name,
			Cold:    program.cold,
		})
	}
	return targets
}

// minorOf is "1.35" of "1.35.2".
func minorOf(version string) string { return version[:strings.LastIndex(version, ".")] }

// Minors lists the older minor versions of Kubernetes whose control plane can
// be built, oldest first.
func Minors() []string {
	var minors []string
	for _, version := range olderVersions {
		minors = append(minors, minorOf(version))
	}
	return minors
}

// ProgramOf is the name of a program in a cluster of one of Minors, or of the
// current version for "": programs that are not Kubernetes' own are the same in all.
func ProgramOf(minor, name string) string {
	older := name + "-" + minor
	if slices.ContainsFunc(Targets(), func(t Target) bool { return t.Name == older }) {
		return older
	}
	return name
}

// currentTargets are all but those of older versions of Kubernetes.
func currentTargets() []Target {
	return []Target{
		{
			Name: "cluster", Group: "cluster", Module: ".", Own: true, Uses: []string{"../../pkg/ca"}, LDFlags: stripped,
			Package: "github.com/berth-scheduler/berth/tools/cluster/cmd/cluster",
			Cold:    2 * time.Minute,
		},
		{
			Name: "etcd", Group: "stores", Module: "stores", LDFlags: stripped,
			Package: "go.etcd.io/etcd/server/v3",
			Cold:    time.Minute,
		},
		{
			Name: "nats-server", Group: "stores", Module: "stores", LDFlags: stripped,
			Package: "github.com/nats-io/nats-server/v2",
			Cold:    time.Minute,
		},
		{
			Name: "kwok", Group: "kwok", Module: ".", LDFlags: stripped,
			Package: "sigs.k8s.io/kwok/cmd/kwok",
			Cold:    time.Minute,
		},
		{
			Name: "kube-apiserver", Group: "apiserver", Module: "kubernetes",
			LDFlags: kubernetesLDFlags(kubernetesVersion),
			Package: "k8s.io/kubernetes/cmd/kube-apiserver",
			Cold:    5 * time.Minute,
		},
		{
			Name: "kube-controller-manager", Group: "apiserver", Module: "kubernetes",
			LDFlags: kubernetesLDFlags(kubernetesVersion),
			Package: "k8s.io/kubernetes/cmd/kube-controller-manager",
			Cold:    2 * time.Minute,
		},
		{
			Name: "kubectl", Group: "kubectl", Module: "kubernetes",
			LDFlags: kubernetesLDFlags(kubernetesVersion),
			Package: "k8s.io/kubernetes/cmd/kubectl",
			Cold:    2 * time.Minute,
		},
		{
			Name: "kube-scheduler", Group: "kube-scheduler", Module: "peers/kube-scheduler",
			LDFlags: kubernetesLDFlags(kubernetesVersion),
			Package: "k8s.io/kubernetes/cmd/kube-scheduler",
			Cold:    4 * time.Minute,
		},
		{
			Name: "descheduler", Group: "descheduler", Module: "peers/descheduler", LDFlags: stripped,
			Package: "sigs.k8s.io/descheduler/cmd/descheduler",
			Cold:    4 * time.Minute,
		},
	}
}

// Select returns the targets for names, each once and in build order. A name is a program, a group, "all",
// "all-but-peers" or "peers". The programs of older versions of Kubernetes, and neighbours, must be requested by their
// own names or groups.
func Select(names []string) ([]Target, error) {
	wanted := map[string]bool{}
	for _, name := range names {
		matched := false
		for _, target := range Targets() {
			if target.answersTo(name) {
				wanted[target.Name] = true
				matched = true
			}
		}
		if !matched {
			return nil, fmt.Errorf("unknown build target %q: want one of %s", name, strings.Join(Names(), ", "))
		}
	}
	return slices.DeleteFunc(Targets(), func(t Target) bool { return !wanted[t.Name] }), nil
}

// Names lists what Select accepts, sorted.
func Names() []string {
	names := []string{"all", "all-but-peers", "peers"}
	for _, target := range Targets() {
		names = append(names, target.Name, target.Group)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (t Target) answersTo(name string) bool {
	peer := slices.Contains(peerModules, t.Name)
	apart := t.Group == neighbours || slices.Contains(Minors(), strings.TrimPrefix(t.Group, "kubernetes-"))
	switch name {
	case "all":
		return !apart
	case "all-but-peers":
		return !apart && !peer
	case "peers":
		return peer
	default:
		return name == t.Name || name == t.Group
	}
}

// stripped leaves out the symbol table and debug information: half the size,
// and stack traces keep their names and lines.
const stripped = "-s -w"

// kubernetesLDFlags makes a Kubernetes program report the release it is built
// from. The date is fixed so that equal inputs give equal bytes.
func kubernetesLDFlags(version string) string {
	const at = "k8s.io/component-base/version"
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	flags := []string{stripped}
	for _, set := range [][2]string{
		{"gitVersion", "v" + version},
		{"gitMajor", major},
		{"gitMinor", minor},
		{"gitTreeState", "clean"},
		{"gitCommit", "unknown"},
		{"buildDate", "1970-01-01T00:00:00Z"},
	} {
		flags = append(flags, fmt.Sprintf("-X %s.%s=%s", at, set[0], set[1]))
	}
	return strings.Join(flags, " ")
}
