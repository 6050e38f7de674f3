package conformance

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/placement"
	berthconfig "github.com/berth-scheduler/berth/pkg/placement/config"
)

// configException is a mistake that only one side sees, on purpose.
type configException string

const (
	// noAddress: an extender must have one. Upstream fails every call instead.
	noAddress configException = "extender without an address"
	// alphaPlugin: plugins behind alpha gates are unknown here; upstream knows them even with the gate off, and they
	// do nothing.
	alphaPlugin configException = "alpha plugins"
	// unknownDisabled: a name that is disabled must exist too. Upstream does not look.
	unknownDisabled configException = "unknown plugin disabled"
	// unknownArgs: so must one with arguments.
	unknownArgs configException = "arguments of an unknown plugin"
	// unreadArgs: arguments that no code reads are refused. Upstream takes them, and has
	// only those of the queue sort plugin agree between profiles.
	unreadArgs configException = "arguments for a plugin without"
	// negativeWeight: upstream lets a score count against a node.
	negativeWeight configException = "negative weight"
	// longBackoff: a backoff of more seconds than a time.Duration holds; upstream's overflows.
	longBackoff configException = "backoff too long"
	// unprepared: a filter without its preFilter, or a score without its preScore, that
	// upstream starts with and then fails every pod over.
	unprepared configException = "a point without the one before"
	// unusedArgs: upstream looks at the arguments of NodeResourcesFit only when it builds the
	// plugin (see fitFindings), and so not at all if that is off.
	unusedArgs configException = "arguments of NodeResourcesFit when off"
	// unnoticedTwice: a plugin twice in multiPoint. Upstream notices only if multiPoint
	// decides about one of its points.
	unnoticedTwice configException = "twice in multiPoint"
)

var configExceptions = []configException{
	noAddress, alphaPlugin, unknownDisabled, unknownArgs, unreadArgs, negativeWeight, longBackoff, unprepared,
	unusedArgs, unnoticedTwice,
}

var (
	addressField = regexp.MustCompile(`^extenders\[\d+\]\.urlPrefix$`)
	entryField   = regexp.MustCompile(`^profiles\[(\d+)\]\.plugins\.(\w+)\.(enabled|disabled)\[(\d+)\](\.weight)?$`)
	configField  = regexp.MustCompile(`^profiles\[(\d+)\]\.pluginConfig\[(\d+)\](\.args)?(\..+)?$`)
	beforeField  = regexp.MustCompile(`\.plugins\.(preFilter|preScore)$`)
)

// exceptionOfMistake names the exception that a mistake of one side alone falls under; empty
// for none.
func exceptionOfMistake(m mistake, f *fileView) configException {
	switch {
	case addressField.MatchString(m.Field):
		return noAddress
	case strings.HasSuffix(m.Field, ".pluginConfig.args"):
		return unreadArgs
	case beforeField.MatchString(m.Field) && m.Kind == required:
		return unprepared
	case strings.HasPrefix(m.Field, "podInitialBackoff"), strings.HasPrefix(m.Field, "podMaxBackoff"):
		if f.longestBackoff() > math.MaxInt64/int64(time.Second) {
			return longBackoff
		}
	}
	if g := entryField.FindStringSubmatch(m.Field); g != nil {
		return exceptionOfEntry(m, f, g)
	}
	if g := configField.FindStringSubmatch(m.Field); g != nil {
		return exceptionOfArgs(m, f, g)
	}
	return ""
}

func exceptionOfEntry(m mistake, f *fileView, g []string) configException {
	profile, index := number(g[1]), number(g[4])
	list := fileSets(f.pluginsOf(profile))[berthconfig.Point(g[2])]
	if g[3] == "disabled" {
		if name := list.Disabled[index].Name; m.Kind == notSupported && !slices.Contains(knownPlugins, name) {
			return unknownDisabled
		}
		return ""
	}
	entry := list.Enabled[index]
	switch {
	case g[5] == ".weight" && entry.Weight != nil && *entry.Weight < 0:
		return negativeWeight
	case g[5] == ".weight":
		return ""
	case slices.Contains(alphaPlugins, entry.Name):
		return alphaPlugin
	case g[2] == "multiPoint" && m.Kind == duplicate && !multiPointDecides(f.pluginsOf(profile), entry.Name):
		return unnoticedTwice
	}
	return ""
}

// multiPointDecides reports whether a plugin runs at some point because of multiPoint.
func multiPointDecides(p *schedulerv1.Plugins, name string) bool {
	has := func(list []schedulerv1.Plugin, name string) bool {
		return slices.ContainsFunc(list, func(e schedulerv1.Plugin) bool { return e.Name == name })
	}
	for at, acting := range pluginsAt {
		set := fileSets(p)[berthconfig.Point(at)]
		if slices.Contains(acting, name) && !has(set.Enabled, name) &&
			!has(set.Disabled, name) && !has(set.Disabled, "*") {
			return true
		}
	}
	return false
}

func exceptionOfArgs(m mistake, f *fileView, g []string) configException {
	profile := number(g[1])
	name := f.Profiles[profile].PluginConfig[number(g[2])].Name
	switch {
	case g[3] == "" && m.Kind == notSupported && !slices.Contains(knownPlugins, name):
		return unknownArgs
	case g[3] == ".args" && g[4] == "" && m.Kind == forbidden && !slices.Contains(pluginsWithArgs, name):
		return unreadArgs
	case name == "NodeResourcesFit" && g[4] != "" && !fitRuns(f.pluginsOf(profile)):
		return unusedArgs
	}
	return ""
}

// fitRuns reports whether upstream builds NodeResourcesFit, a plugin of the default set.
func fitRuns(p *schedulerv1.Plugins) bool {
	const fit = "NodeResourcesFit"
	if p == nil {
		return true
	}
	for _, set := range fileSets(p) {
		if slices.ContainsFunc(set.Enabled, func(e schedulerv1.Plugin) bool { return e.Name == fit }) {
			return true
		}
	}
	return !slices.ContainsFunc(p.MultiPoint.Disabled, func(d schedulerv1.Plugin) bool {
		return d.Name == fit || d.Name == "*"
	})
}

func (f *fileView) longestBackoff() (longest int64) {
	for _, seconds := range []*int64{f.PodInitialBackoffSeconds, f.PodMaxBackoffSeconds} {
		if seconds != nil {
			longest = max(longest, *seconds)
		}
	}
	return longest
}

func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return n
}

const configHeader = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// TestConfigExceptions shows what both sides say where only one of them sees a mistake.
// upstream is part of its error, empty where it accepts.
func TestConfigExceptions(t *testing.T) {
	quietUpstream(t)
	tests := map[configException][]struct{ file, upstream, ours string }{
		noAddress: {{
			`extenders: [{filterVerb: f}]`, "", "extenders[0].urlPrefix: nothing: want the address",
		}},
		alphaPlugin: {{
			`profiles: [{plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}}]`, "",
			`multiPoint.enabled[0]: "GangScheduling": want one of`,
		}},
		unknownDisabled: {{
			`profiles: [{plugins: {score: {disabled: [{name: ImageLocallity}]}}}]`, "",
			`score.disabled[0]: "ImageLocallity": want * or one of`,
		}},
		unknownArgs: {{
			`profiles: [{pluginConfig: [{name: Coscheduling, args: {x: 1}}]}]`, "",
			`pluginConfig[0]: "Coscheduling": want one of`,
		}},
		unreadArgs: {{
			`profiles: [{pluginConfig: [{name: NodeName, args: {x: 1}}]}]`, "",
			`pluginConfig[0].args: "NodeName": takes no arguments`,
		}},
		negativeWeight: {
			{
				`profiles: [{plugins: {multiPoint: {enabled: [{name: ImageLocality, weight: -1}]}}}]`, "",
				`multiPoint.enabled[0].weight: -1: want 1 or more`,
			},
			{
				`profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: -1}]}}}]`,
				"total score of Score plugins could overflow", `score.enabled[0].weight: -1: want 1 or more`,
			},
		},
		longBackoff: {{`podMaxBackoffSeconds: 9223372037`, "", "podMaxBackoffSeconds: 9223372037: want"}},
		unprepared: {{
			`profiles: [{plugins: {preFilter: {disabled: [{name: NodePorts}]}}}]`, "",
			`preFilter: "NodePorts": enabled at filter but not here`,
		}},
		unusedArgs: {{
			`profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}, ` +
				`pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [a b]}}]}]`, "",
			`pluginConfig[0].args.ignoredResources[0]: "a b"`,
		}},
		unnoticedTwice: {{
			`profiles: [{plugins: {multiPoint: {enabled: [{name: ImageLocality}, {name: ImageLocality}]}, ` +
				`score: {enabled: [{name: ImageLocality}]}}}]`, "",
			`multiPoint.enabled[1]: "ImageLocality": given twice`,
		}},
	}
	for _, e := range configExceptions {
		if len(tests[e]) == 0 {
			t.Errorf("%s: no test", e)
		}
		for _, test := range tests[e] {
			data := []byte(configHeader + test.file)
			got := newUpstreamLoader().load(t.Context(), data).startErr
			if test.upstream == "" && got != nil || test.upstream != "" && !mentions(got, test.upstream) {
				t.Errorf("%s: upstream says %v of %s, want %q: the exception may be obsolete", e, got, test.file, test.upstream)
			}
			if _, err := berthconfig.Parse("config.yaml", data); !mentions(err, test.ours) {
				t.Errorf("%s: we say %v of %s, want %q", e, err, test.file, test.ours)
			}
		}
	}
}

func mentions(err error, words string) bool {
	return err != nil && strings.Contains(err.Error(), words)
}

// TestAllNodesByDefault: a percentage of 0 is upstream's default, too, but there it means a share that decreases as
// the cluster grows; here it means all nodes.
func TestAllNodesByDefault(t *testing.T) {
	if config.DefaultPercentageOfNodesToScore != 0 {
		t.Errorf("upstream's default percentage is %d", config.DefaultPercentageOfNodesToScore)
	}
	for _, file := range []string{"", "percentageOfNodesToScore: 0", "percentageOfNodesToScore: 40\n" +
		"profiles: [{percentageOfNodesToScore: 0}]"} {
		c, err := berthconfig.Parse("config.yaml", []byte(configHeader+file))
		if err != nil {
			t.Fatal(err)
		}
		profile, err := placement.NewProfile(c.Profiles[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := profile.SampleSize(5000); got != 5000 {
			t.Errorf("%q: %d of 5000 nodes are enough, want all", file, got)
		}
	}
}

// TestUnpreparedPlugins: we refuse a plugin at a point without the preparing point before it exactly where upstream
// would fail every pod.
func TestUnpreparedPlugins(t *testing.T) {
	quietUpstream(t)
	for _, half := range []struct{ before, point string }{{"preFilter", "filter"}, {"preScore", "score"}} {
		for _, name := range pluginsAt[half.point] {
			if !slices.Contains(pluginsAt[half.before], name) {
				continue
			}
			lists := "multiPoint: {disabled: [{name: '*'}]}, queueSort: {enabled: [{name: PrioritySort}]}, " +
				"bind: {enabled: [{name: DefaultBinder}]}, " + half.point + ": {enabled: [{name: " + name + "}]}"
			data := []byte(configHeader + "profiles: [{plugins: {" + lists + "}}]")
			v := newUpstreamLoader().load(t.Context(), data)
			if v.startErr != nil {
				t.Fatalf("%s: upstream refuses: %v", name, v.startErr)
			}
			fails := unpreparedFails(t, v.frameworks[0])
			_, err := berthconfig.Parse("config.yaml", data)
			if refused := err != nil; refused != fails {
				t.Errorf("%s at %s alone: upstream fails pods: %t, we refuse: %v", name, half.point, fails, err)
			}
		}
	}
}

// unpreparedFails runs a plain pod by a plain node.
func unpreparedFails(t *testing.T, f framework.Framework) bool {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "p"}}
	node := framework.NewNodeInfo()
	node.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	state := framework.NewCycleState()
	if _, status, _ := f.RunPreFilterPlugins(t.Context(), state, pod); !status.IsSuccess() {
		t.Fatalf("preFilter: %v", status)
	}
	if status := f.RunFilterPlugins(t.Context(), state, pod, node); status.Code() == fwk.Error {
		return true
	}
	if status := f.RunPreScorePlugins(t.Context(), state, pod, []fwk.NodeInfo{node}); !status.IsSuccess() {
		t.Fatalf("preScore: %v", status)
	}
	_, status := f.RunScorePlugins(t.Context(), state, pod, []fwk.NodeInfo{node})
	return status.Code() == fwk.Error
}

// TestBerthSettingsAreIgnoredUpstream: a file with Berth's own settings is one that
// kube-scheduler starts with.
func TestBerthSettingsAreIgnoredUpstream(t *testing.T) {
	quietUpstream(t)
	data := []byte(configHeader + "profiles: [{pluginConfig: [{name: Berth, args: {preemption: {pdb: bestEffort}}}]}]")
	if v := newUpstreamLoader().load(t.Context(), data); v.startErr != nil || v.frameworks[0] == nil {
		t.Errorf("upstream refuses the file: %v", v.startErr)
	}
	c, err := berthconfig.Parse("config.yaml", data)
	if err != nil || c.Profiles[0].Preemption.PDB != placement.PDBBestEffort {
		t.Errorf("ours: %+v, %v", c, err)
	}
}
