package descheduling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	evictionutils "sigs.k8s.io/descheduler/pkg/descheduler/evictions/utils"
	podutil "sigs.k8s.io/descheduler/pkg/descheduler/pod"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// drawnCase is one cluster and policy.
type drawnCase struct {
	strategy string
	w        *world
	drawn    tree
}

// denies returns why upstream could not have made these evictions, or nothing. The outcomes that upstream's algorithm
// allows are derived from its code, not from its answers:
//
//   - Duplicates and topology spread iterate over Go maps, so their evictions meet the limits of a cycle in any order
//     that the maps can give.
//   - Three strategies sort pods by priority, service class and a no-eviction annotation, and one by restarts. Pods
//     that are equal in all of these are in the order of the API's list, which is arbitrary.
//   - The other strategies leave nothing open.
//
// The test draws no two nodes of equal use, which the utilization strategies would take in any order. once: a pod
// whose eviction is requested again counts once against the limits, as ours does on purpose.
func (o *oracle) denies(t *testing.T, c drawnCase, a answer, once bool) string {
	t.Helper()
	switch c.strategy {
	case policy.PluginTopologySpread:
		return o.deniesSpread(t, c, a.sequence)
	case policy.PluginDuplicates:
		return o.deniesDuplicates(t, c, a.sequence, once)
	case policy.PluginTooManyRestarts, policy.PluginInterPodAntiAffinity, policy.PluginLowNodeUtilization,
		policy.PluginHighNodeUtilization:
		return o.deniesTies(t, c, a)
	default:
		limits, allowed := newQuota(c.drawn), []string(nil)
		for _, name := range o.ask(t, c.w, unlimited(c.drawn)).sequence {
			p := c.w.pod(name)
			if once && slices.Contains(allowed, name) || limits.refuses(p) != "" {
				continue
			}
			limits.take(p)
			allowed = append(allowed, name)
		}
		return differ(newAnswer(allowed, a.failed).evicted, a.evicted)
	}
}

func (o *oracle) ask(t *testing.T, w *world, drawn tree) answer {
	t.Helper()
	a, err := o.run(t.Context(), w, text(drawn))
	if err != nil {
		t.Fatalf("upstream: %v\n%s", err, text(drawn))
	}
	return a
}

func differ(want, got []string) string {
	if slices.Equal(want, got) {
		return ""
	}
	return fmt.Sprintf("in that order upstream evicts %v", want)
}

func (w *world) pod(key string) *corev1.Pod {
	for _, p := range w.pods {
		if keyOf(p) == key {
			return p
		}
	}
	return nil
}

func keyOf(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

// The keys of a policy that limit the evictions of a cycle.
var limitKeys = []string{"maxNoOfPodsToEvictTotal", "maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictPerNamespace"}

// unlimited is the policy without limits of a cycle.
func unlimited(drawn tree) tree {
	out := maps.Clone(drawn)
	for _, key := range limitKeys {
		delete(out, key)
	}
	return out
}

// quota counts evictions against the limits of a cycle. (evictions.EvictPod)
type quota struct {
	limits map[string]int
	used   map[string]int
}

func newQuota(drawn tree) *quota {
	q := &quota{limits: map[string]int{}, used: map[string]int{}}
	for _, key := range limitKeys {
		if limit, ok := drawn[key].(int); ok {
			q.limits[key] = limit
		}
	}
	return q
}

// counters are the limits that a pod counts against, by the limit's key.
func counters(p *corev1.Pod) map[string]string {
	return map[string]string{
		"maxNoOfPodsToEvictTotal":        "total",
		"maxNoOfPodsToEvictPerNode":      "node " + p.Spec.NodeName,
		"maxNoOfPodsToEvictPerNamespace": "namespace " + p.Namespace,
	}
}

// refuses names the limit that the pod would exceed, the first that upstream looks at, or none.
func (q *quota) refuses(p *corev1.Pod) string {
	for _, key := range limitKeys {
		if limit, ok := q.limits[key]; ok && q.used[counters(p)[key]] >= limit {
			return key
		}
	}
	return ""
}

func (q *quota) take(p *corev1.Pod) {
	for _, counter := range counters(p) {
		q.used[counter]++
	}
}

func (q *quota) clone() *quota { return &quota{limits: q.limits, used: maps.Clone(q.used)} }

// deniesTies asks upstream again with its ties broken according to the evictions: first the evicted pods, in their
// order. That is one of the orders the API's list may have, and no other order can allow evictions that it does not:
// an eviction removes reasons and capacity for others and never adds some, so a pod that is spared early would be
// spared late.
func (o *oracle) deniesTies(t *testing.T, c drawnCase, a answer) string {
	t.Helper()
	w, drawn := apart(c, a.sequence)
	return differ(o.ask(t, w, drawn).evicted, a.evicted)
}

// spacing separates two values that differed before ties were broken: it exceeds the number of pods.
const spacing = 1000

// apart is the case without equals: the pods of the sequence come first among theirs.
func apart(c drawnCase, sequence []string) (*world, tree) {
	turn := map[string]int{}
	for i, name := range sequence {
		turn[name] = i - len(sequence)
	}
	w := *c.w
	w.pods = nil
	for _, p := range c.w.pods {
		w.pods = append(w.pods, p.DeepCopy())
	}
	byTurn := func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(turn[keyOf(a)], turn[keyOf(b)]), cmp.Compare(keyOf(a), keyOf(b)))
	}
	if c.strategy == policy.PluginTooManyRestarts {
		sorted := slices.SortedFunc(slices.Values(w.pods), byTurn)
		for i, p := range sorted {
			restartsApart(p, len(sorted)-i)
		}
		return &w, scaled(c.drawn, "podRestartThreshold")
	}
	sorted := slices.SortedFunc(slices.Values(w.pods), func(a, b *corev1.Pod) int {
		return cmp.Or(comparePriorities(a, b), cmp.Compare(serviceClass(a), serviceClass(b)),
			cmp.Compare(reluctance(a), reluctance(b)), byTurn(a, b))
	})
	for i, p := range sorted {
		p.Spec.Priority = priorityApart(p.Spec.Priority, i, len(sorted))
	}
	w.classes = nil
	for _, class := range c.w.classes {
		class = class.DeepCopy()
		class.Value *= spacing
		w.classes = append(w.classes, class)
	}
	return &w, scaled(c.drawn, "priorityThreshold", "value")
}

// restartsApart puts spacing between counts of restarts, and rank into it.
func restartsApart(p *corev1.Pod, rank int) {
	for _, list := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i := range list {
			list[i].RestartCount *= spacing
		}
	}
	p.Status.ContainerStatuses[0].RestartCount += int32(rank)
}

// priorityApart keeps every priority on its side of each threshold: no priority is below zero, and a critical one
// stays critical.
func priorityApart(was *int32, rank, of int) *int32 {
	var priority int32
	switch {
	case was == nil:
		priority = int32(rank - of)
	case *was >= systemCritical:
		priority = systemCritical + int32(rank)
	default:
		priority = *was*spacing + int32(rank)
	}
	return &priority
}

// systemCritical is the priority from which a pod is. (utils.SystemCriticalPriority)
const systemCritical = 2_000_000_000

func comparePriorities(a, b *corev1.Pod) int {
	switch x, y := a.Spec.Priority, b.Spec.Priority; {
	case x == nil && y == nil:
		return 0
	case x == nil:
		return -1
	case y == nil:
		return 1
	default:
		return cmp.Compare(*x, *y)
	}
}

func serviceClass(p *corev1.Pod) int {
	switch {
	case podutil.IsBestEffortPod(p):
		return 0
	case podutil.IsBurstablePod(p):
		return 1
	default:
		return 2
	}
}

func reluctance(p *corev1.Pod) int {
	if evictionutils.HaveNoEvictionAnnotation(p) {
		return 1
	}
	return 0
}

// scaled is the policy with the number at the path in the arguments of a plugin multiplied by spacing.
func scaled(drawn tree, path ...string) tree {
	out := maps.Clone(drawn)
	profile := maps.Clone(drawn["profiles"].([]any)[0].(tree))
	var configs []any
	for _, config := range profile["pluginConfig"].([]any) {
		config := maps.Clone(config.(tree))
		config["args"] = scaledAt(config["args"].(tree), path)
		configs = append(configs, config)
	}
	profile["pluginConfig"] = configs
	out["profiles"] = []any{profile}
	return out
}

func scaledAt(t tree, path []string) tree {
	out := maps.Clone(t)
	switch value := t[path[0]].(type) {
	case int:
		out[path[0]] = value * spacing
	case tree:
		out[path[0]] = scaledAt(value, path[1:])
	}
	return out
}

// block is RemoveDuplicates' evictions of one owner on one node, in order.
type block struct {
	owner, node string
	pods        []*corev1.Pod
}

// deniesDuplicates follows the sequence: upstream iterates over owners and, for each, over nodes, both in any order.
// (removeduplicates.Balance)
func (o *oracle) deniesDuplicates(t *testing.T, c drawnCase, sequence []string, once bool) string {
	t.Helper()
	var blocks []*block
	for _, name := range unique(o.ask(t, c.w, unlimited(c.drawn)).sequence) {
		p := c.w.pod(name)
		for _, ref := range p.OwnerReferences {
			owner := fmt.Sprint(p.Namespace, ref.Kind, ref.Name, images(p))
			i := slices.IndexFunc(blocks, func(b *block) bool { return b.owner == owner && b.node == p.Spec.NodeName })
			if i < 0 {
				i = len(blocks)
				blocks = append(blocks, &block{owner: owner, node: p.Spec.NodeName})
			}
			blocks[i].pods = append(blocks[i].pods, p)
		}
	}
	walk := blockWalk{sequence: sequence, once: once}
	if walk.from(0, blocks, "", newQuota(c.drawn)) {
		return ""
	}
	return fmt.Sprintf("no order of owners and nodes leads to %v", sequence)
}

func unique(names []string) []string {
	var out []string
	for _, name := range names {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func images(p *corev1.Pod) []string {
	var all []string
	for _, c := range p.Spec.Containers {
		all = append(all, c.Image)
	}
	slices.Sort(all)
	return all
}

type blockWalk struct {
	sequence []string
	once     bool
}

// from reports whether the remaining blocks can evict the sequence from a position on. owner is the owner that
// upstream is at. A block that evicts nothing comes as late as possible, when the limits refuse the most.
func (w *blockWalk) from(at int, left []*block, owner string, limits *quota) bool {
	if at == len(w.sequence) && w.idle(at, left, limits) {
		return true
	}
	for i, b := range left {
		rest := slices.Concat(left[:i], left[i+1:])
		if b.owner != owner {
			// Upstream has done with the owner it was at.
			own := func(b *block) bool { return b.owner == owner }
			if !w.idle(at, slices.DeleteFunc(slices.Clone(left), func(b *block) bool { return !own(b) }), limits) {
				continue
			}
			rest = slices.DeleteFunc(rest, own)
		}
		after := limits.clone()
		next, ok := w.play(at, b, after)
		if ok && next > at && w.from(next, rest, b.owner, after) {
			return true
		}
	}
	return false
}

// play evicts a block and returns the place in the sequence after it, if the sequence allows.
func (w *blockWalk) play(at int, b *block, limits *quota) (next int, ok bool) {
	for _, p := range b.pods {
		if w.once && slices.Contains(w.sequence[:at], keyOf(p)) {
			continue
		}
		switch limits.refuses(p) {
		case "":
		case "maxNoOfPodsToEvictPerNamespace":
			continue
		default:
			return at, true
		}
		if at == len(w.sequence) || w.sequence[at] != keyOf(p) {
			return at, false
		}
		limits.take(p)
		at++
	}
	return at, true
}

// idle reports whether blocks evict nothing after a place in the sequence.
func (w *blockWalk) idle(at int, blocks []*block, limits *quota) bool {
	return !slices.ContainsFunc(blocks, func(b *block) bool {
		next, ok := w.play(at, b, limits.clone())
		return !ok || next > at
	})
}
