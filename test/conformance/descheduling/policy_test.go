package descheduling

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	promapi "github.com/prometheus/client_golang/api"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/descheduler/pkg/api"
	"sigs.k8s.io/descheduler/pkg/descheduler/evictions"
	"sigs.k8s.io/descheduler/pkg/framework/pluginregistry"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/defaultevictor"
	"sigs.k8s.io/descheduler/pkg/framework/profile"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/seedtest"
)

// fault is a mistake, or a change that is no mistake, put into a policy.
type fault struct {
	name string
	put  func(s source, doc tree)
	// stricter: upstream loads what we refuse.
	stricter bool
}

// args of the strategy of a drawn policy.
func args(doc tree) tree {
	return doc["profiles"].([]any)[0].(tree)["pluginConfig"].([]any)[0].(tree)["args"].(tree)
}

// evictor makes sure that the evictor of a drawn policy is configured, and returns its args.
func evictor(doc tree) tree {
	p := doc["profiles"].([]any)[0].(tree)
	configs := p["pluginConfig"].([]any)
	for _, c := range configs {
		if c.(tree)["name"] == policy.PluginDefaultEvictor {
			return c.(tree)["args"].(tree)
		}
	}
	args := tree{}
	p["pluginConfig"] = append(configs, tree{"name": policy.PluginDefaultEvictor, "args": args})
	return args
}

func setArg(key string, value any) func(source, tree) {
	return func(_ source, doc tree) { args(doc)[key] = value }
}

func setEvictor(key string, value any) func(source, tree) {
	return func(_ source, doc tree) { evictor(doc)[key] = value }
}

func setTop(key string, value any) func(source, tree) {
	return func(_ source, doc tree) { doc[key] = value }
}

// faults are added to policies of any strategy: where a key is none of its arguments, that is the mistake.
var faults = []fault{
	{name: "unknown argument", put: setArg("podProtections", tree{})},
	{name: "unknown key at the top", put: setTop("maxPods", 3)},
	{name: "unknown key in a profile", put: func(_ source,
		doc tree) {
		doc["profiles"].([]any)[0].(tree)["evictor"] = tree{}
	}},
	{name: "both namespaces", put: setArg("namespaces", tree{"include": []any{"a"}, "exclude": []any{"b"}})},
	{name: "both evictable", put: setArg("evictableNamespaces", tree{"include": []any{"a"}})},
	{name: "label selector", put: setArg("labelSelector", tree{"matchExpressions": []any{tree{"key": "a",
		"operator": "Near"}}})},
	{name: "states", put: setArg("states", []any{"Running", "Sleeping"})},
	{name: "no restarts", put: setArg("podRestartThreshold", 0)},
	{name: "no criterion", put: func(_ source, doc tree) {
		for _, key := range []string{"maxPodLifeTimeSeconds", "states", "conditions", "exitCodes"} {
			delete(args(doc), key)
		}
	}},
	{name: "empty condition", put: setArg("conditions", []any{tree{}})},
	{name: "both owner kinds", put: setArg("ownerKinds", tree{"include": []any{"a"}, "exclude": []any{"b"}})},
	{name: "both taints", put: func(_ source, doc tree) {
		args(doc)["includedTaints"], args(doc)["excludedTaints"] = []any{"a"}, []any{"b"}
	}},
	{name: "no affinity type", put: setArg("nodeAffinityType", []any{})},
	{name: "odd affinity type", put: setArg("nodeAffinityType", []any{"any"})},
	{name: "constraint", put: setArg("constraints", []any{"Never"})},
	{name: "no thresholds", put: setArg("thresholds", tree{})},
	{name: "threshold too high", put: setArg("thresholds", tree{"cpu": 101})},
	{name: "no targets", put: setArg("targetThresholds", tree{})},
	{name: "other targets", put: setArg("targetThresholds", tree{"pods": 50, "storage": 60})},
	{name: "eviction mode", put: setArg("evictionModes", []any{"All"})},
	{name: "two sources", put: setArg("metricsUtilization", tree{"source": "KubernetesMetrics", "metricsServer": true})},
	{name: "query for another", put: setArg("metricsUtilization", tree{"source": "KubernetesMetrics",
		"prometheus": tree{"query": "up"}})},
	{name: "no query", put: setArg("metricsUtilization", tree{"source": "Prometheus"})},
	{name: "no such source", stricter: true, put: setArg("metricsUtilization", tree{"source": "Graphite"})},
	{name: "wrong type", put: setArg("includingInitContainers", "yes")},
	{name: "threshold twice", put: setEvictor("priorityThreshold", tree{"value": 1, "name": "high"})},
	{name: "threshold too high", put: setEvictor("priorityThreshold", tree{"value": 2_000_000_001})},
	{name: "eviction policy", put: setEvictor("noEvictionPolicy", "Sometimes")},
	{name: "protections of both sorts", put: func(_ source, doc tree) {
		evictor(doc)["evictDaemonSetPods"] = true
		evictor(doc)["podProtections"] = tree{"extraEnabled": []any{"PodsWithPVC"}}
	}},
	{name: "no such protection", put: setEvictor("podProtections", tree{"defaultDisabled": []any{"All"},
		"extraEnabled": []any{"PodsWithPVC", "PodsWithPVC"}})},
	{name: "class without a name", put: setEvictor("podProtections", tree{
		"extraEnabled": []any{"PodsWithPVC"},
		"config":       tree{"PodsWithPVC": tree{"protectedStorageClasses": []any{tree{"name": ""}}}}})},
	{name: "evictor's label selector", put: setEvictor("labelSelector",
		tree{"matchExpressions": []any{tree{"key": "a", "operator": "Near"}}})},
	{name: "evictor's node selector", stricter: true, put: setEvictor("nodeSelector", "a in (b")},
	{name: "node selector", stricter: true, put: setTop("nodeSelector", "a in (b")},
	{name: "grace period", stricter: true, put: setTop("gracePeriodSeconds", -1)},
	{name: "grace period of none", put: setTop("gracePeriodSeconds", 0)},
	{name: "negative limit", put: setTop("maxNoOfPodsToEvictTotal", -1)},
	{name: "source twice", put: setTop("metricsProviders", []any{tree{"source": "KubernetesMetrics"},
		tree{"source": "KubernetesMetrics"}})},
	{name: "collector and source", put: setTop("metricsCollector", tree{"enabled": true})},
	{name: "no server", put: setTop("metricsProviders", []any{tree{"source": "Prometheus"}})},
	{name: "no address", put: setTop("metricsProviders", []any{tree{"source": "Prometheus",
		"prometheus": tree{"authToken": tree{}}}})},
	{name: "half a secret", put: setTop("metricsProviders", []any{tree{"source": "Prometheus",
		"prometheus": tree{"url": "://a", "authToken": tree{"secretReference": tree{"name": "a"}}}}})},
	{name: "no such plugin", put: func(_ source, doc tree) {
		p := doc["profiles"].([]any)[0].(tree)
		p["pluginConfig"] = append(p["pluginConfig"].([]any), tree{"name": "Evictor"})
	}},
	{name: "wrong point", put: func(_ source, doc tree) {
		doc["profiles"].([]any)[0].(tree)["plugins"].(tree)["filter"] = tree{"enabled": []any{policy.PluginPodLifeTime}}
	}},
	{name: "not configured", put: func(s source, doc tree) {
		other := policy.PluginPodLifeTime
		plugins := doc["profiles"].([]any)[0].(tree)["plugins"].(tree)
		if plugins["deschedule"] != nil {
			other = policy.PluginDuplicates
		}
		plugins[pointOf(other)] = tree{"enabled": []any{other}}
	}},
	{name: "another version", put: setTop("apiVersion", "descheduler/v1")},
	{name: "the version before", put: setTop("apiVersion", "descheduler/v1alpha1")},
	{name: "no profiles", put: setTop("profiles", []any{})},
}

// TestPolicies: a file that upstream loads means the same to us, and a file that upstream refuses we refuse with its
// messages.
func TestPolicies(t *testing.T) {
	o, first := newOracle(t), firstSeed(t)
	strategies := slices.Sorted(maps.Keys(drawers))
	accepted, refused, hit := 0, 0, map[string]int{}
	for i := range uint64(*cases) {
		at := first + i
		s := newSource(at)
		doc := drawPolicy(s, pick(s, strategies...))
		stricter := false
		for range s.IntN(3) {
			f := pick(s, faults...)
			if len(doc["profiles"].([]any)) == 0 {
				break
			}
			f.put(s, doc)
			hit[f.name]++
			stricter = stricter || f.stricter
		}
		ok, diff := o.comparePolicy(t.Context(), text(doc), stricter)
		if diff != "" {
			t.Fatalf("seed %d: %s\n%s\nreplay with -args -seed=%d -cases=1", at, diff, text(doc), at)
		}
		if ok {
			accepted++
		} else {
			refused++
		}
	}
	t.Logf("%d accepted, %d refused, %d sorts of mistakes", accepted, refused, len(hit))
	if *cases >= 1000 && (accepted*5 < *cases || refused*5 < *cases || len(hit) < len(faults)/2) {
		seedtest.Lacks(t, *seed, *cases >= enoughCases, "%d accepted, %d refused, %d sorts of mistakes",
			accepted, refused, len(hit))
	}
}

// comparePolicy reports whether both accept, and how they differ.
func (o *oracle) comparePolicy(ctx context.Context, file []byte, stricter bool) (accepted bool, diff string) {
	o.world = drawWorld(newSource(1), policy.PluginNodeTaints)
	theirs, loadErr := o.load(file)
	err := loadErr
	if err == nil {
		err = o.build(ctx, theirs)
	}
	ours, ourErr := policy.Parse("policy.yaml", file)
	switch {
	case err == nil && ourErr != nil && stricter:
		return false, ""
	case (err == nil) != (ourErr == nil):
		return false, fmt.Sprintf("upstream: %v\nours: %v", err, ourErr)
	case err == nil:
		return true, comparePolicies(theirs, ours)
	}
	for _, message := range messages(loadErr) {
		if !strings.Contains(strings.Join(strings.Fields(ourErr.Error()), " "), message) {
			return false, fmt.Sprintf("upstream says %q, ours\n%v", message, ourErr)
		}
	}
	return false, ""
}

// build makes upstream's plugins: some mistakes are found only then.
func (o *oracle) build(ctx context.Context, p *api.DeschedulerPolicy) error {
	factory, err := o.informers(o.world)
	if err != nil {
		return err
	}
	evictor, err := evictions.NewPodEvictor(ctx, o.client, &events.FakeRecorder{}, factory.Core().V1().Pods().Informer(),
		gates(), evictions.NewOptions())
	if err != nil {
		return err
	}
	for i, config := range p.Profiles {
		_, err := profile.NewProfile(ctx, config, pluginregistry.PluginRegistry,
			profile.WithClientSet(o.client), profile.WithSharedInformerFactory(factory), profile.WithPodEvictor(evictor),
			profile.WithGetPodsAssignedToNodeFnc(o.world.podsOn()),
			profile.WithPrometheusClient(func() promapi.Client { return prometheus{o.world} }),
			profile.WithProfileInstanceID(fmt.Sprint(i)))
		if err != nil {
			return err
		}
	}
	return nil
}

// messages are upstream's complaints about a policy that could be decoded, without the name
// of the profile. What cannot be decoded is worded by its libraries.
func messages(err error) []string {
	agg, ok := err.(utilerrors.Aggregate)
	if !ok {
		return nil
	}
	var all []string
	for _, e := range utilerrors.Flatten(agg).Errors() {
		text := strings.TrimPrefix(e.Error(), "in profile drawn: ")
		// Several mistakes of one plugin share one text: "[a, b]".
		if inner, ok := strings.CutPrefix(text, "["); ok {
			for _, one := range strings.Split(strings.TrimSuffix(inner, "]"), ", ") {
				all = append(all, stablePart(one))
			}
			continue
		}
		all = append(all, stablePart(text))
	}
	return all
}

// stablePart cuts a message off before what depends on the order of a map.
func stablePart(message string) string {
	for _, end := range []string{" is not one of map[", "threshold not in", " percentage is greater"} {
		if at := strings.Index(message, end); at >= 0 {
			if end == " is not one of map[" {
				return message[:at]
			}
			return end
		}
	}
	return strings.Join(strings.Fields(message), " ")
}

var (
	selector         = reflect.TypeFor[labels.Selector]()
	compareSelectors = cmp.Comparer(func(a, b labels.Selector) bool { return a.String() == b.String() })
	// emptyIsNil for all but selectors, some of which are lists.
	emptyIsNil = cmp.FilterPath(func(p cmp.Path) bool { return !p.Last().Type().Implements(selector) },
		cmpopts.EquateEmpty())
)

func comparePolicies(theirs *api.DeschedulerPolicy, ours *policy.Policy) string {
	var diffs []string
	add := func(what string, want, got any) {
		if d := cmp.Diff(want, got, compareSelectors, emptyIsNil); d != "" {
			diffs = append(diffs, what+" (-upstream +ours):\n"+d)
		}
	}
	wanted := ""
	if theirs.NodeSelector != nil {
		wanted = *theirs.NodeSelector
	}
	nodes, err := labels.Parse(wanted)
	if err != nil {
		return err.Error()
	}
	add("nodeSelector", nodes, ours.Nodes)
	add("limits", policy.Limits{PerNode: theirs.MaxNoOfPodsToEvictPerNode,
		PerNamespace: theirs.MaxNoOfPodsToEvictPerNamespace, Total: theirs.MaxNoOfPodsToEvictTotal}, ours.Limits)
	add("gracePeriodSeconds", theirs.GracePeriodSeconds, ours.GracePeriodSeconds)
	add("profiles", len(theirs.Profiles), len(ours.Profiles))
	for i := range min(len(theirs.Profiles), len(ours.Profiles)) {
		t, o := &theirs.Profiles[i], &ours.Profiles[i]
		add("name", t.Name, o.Name)
		configs := map[string]any{}
		for _, c := range t.PluginConfigs {
			if _, ok := configs[c.Name]; !ok {
				configs[c.Name] = c.Args
			}
		}
		strategies := func(names []string) []policy.Strategy {
			var list []policy.Strategy
			for _, name := range names {
				list = append(list, policy.Strategy{Name: name, Args: argsOf(configs[name])})
			}
			return list
		}
		add("deschedule", strategies(t.Plugins.Deschedule.Enabled), o.Deschedule)
		add("balance", strategies(t.Plugins.Balance.Enabled), o.Balance)
		guard := configs[policy.PluginDefaultEvictor].(*defaultevictor.DefaultEvictorArgs)
		add("evictor", evictorOf(guard, o.Evictor), o.Evictor)
		if o.Evictor.Protect.SystemCritical {
			add("threshold", *guard.PriorityThreshold.Value, thresholdOf(&o.Evictor))
		}
	}
	return strings.Join(diffs, "\n")
}

// thresholdOf is the priority from which on pods are protected; the class is that of every
// world.
func thresholdOf(e *policy.Evictor) int32 {
	switch {
	case e.PriorityThreshold != nil:
		return *e.PriorityThreshold
	case e.PriorityClass != "":
		return 500
	default:
		return policy.CriticalPriority
	}
}
