package descheduling

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	nodeutil "sigs.k8s.io/descheduler/pkg/descheduler/node"
	podutil "sigs.k8s.io/descheduler/pkg/descheduler/pod"
	"sigs.k8s.io/descheduler/pkg/framework/fake"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/defaultevictor"
	spreading "sigs.k8s.io/descheduler/pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint"
	frameworktypes "sigs.k8s.io/descheduler/pkg/framework/types"
	"sigs.k8s.io/descheduler/pkg/utils"
)

// maxSpreadSteps bounds the search for a way to a set of evictions. (Measured: 200 at most.)
const maxSpreadSteps = 100_000

// spreadModel is RemovePodsViolatingTopologySpreadConstraint with its free choices. It is written from upstream's
// topologyspreadconstraint.go, with upstream's own predicates. The choices are
//
//   - the order of domains of one size: sortDomains sorts values from a map. The sizes decide how many pods each
//     position in the order gives away, so such domains share the numbers of their positions;
//   - which of several pods that the sort treats as equal is evicted;
//   - the order in which the chosen pods meet the limits: they are in a map. So the evicted pods are any set that the
//     limits allow and to which no other chosen pod can be added.
//
// Where two constraints choose among the same equals, the model lets them choose independently. Upstream's choices
// would agree; no way is known to see that from the evictions alone.
type spreadModel struct {
	evictor     *fake.HandleImpl
	nodes       []*corev1.Node
	podsOn      podutil.GetPodsAssignedToNodeFunc
	nodeFit     bool
	constraints []*spreadConstraint

	// evicted are the pods whose evictions the model must explain, final the limits' state after it.
	evicted map[string]bool
	final   *quota
	steps   int
}

// spreadConstraint is one constraint of a namespace that is not balanced.
type spreadConstraint struct {
	domains []*spreadDomain
	// gives is how many pods are evicted from each position in the order of sizes.
	gives []int
}

// spreadDomain has its pods in the order in which they stay: the last go first.
type spreadDomain struct {
	pods  []*corev1.Pod
	ranks map[*corev1.Pod]spreadRank
}

// spreadRank has the criteria of the two sorts, the later one first.
type spreadRank struct {
	movable, free bool
	priority      int64
}

func (r spreadRank) compare(other spreadRank) int {
	key := func(r spreadRank) []int64 { return []int64{bit(r.movable), bit(r.free), r.priority} }
	return slices.Compare(key(r), key(other))
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// deniesSpread returns why upstream could not have evicted these, or nothing.
func (o *oracle) deniesSpread(t *testing.T, c drawnCase, evicted []string) string {
	t.Helper()
	m, err := o.spreadModel(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	m.evicted, m.final = map[string]bool{}, newQuota(c.drawn)
	for _, name := range evicted {
		p := c.w.pod(name)
		if refused := m.final.refuses(p); refused != "" || m.evicted[name] || !m.evictor.PreEvictionFilter(p) {
			return fmt.Sprintf("%s cannot be evicted: limit %q, twice %t", name, refused, m.evicted[name])
		}
		m.evicted[name] = true
		m.final.take(p)
	}
	if m.explain(0, map[string]bool{}) {
		return ""
	}
	return fmt.Sprintf("no choice among equals leads to %v (%d steps, at most %d)", evicted, m.steps, maxSpreadSteps)
}

// explain reports whether the constraints from one on can choose so that all that is evicted is chosen, and
// of the rest only pods that cannot go.
func (m *spreadModel) explain(at int, chosen map[string]bool) bool {
	if m.steps++; m.steps > maxSpreadSteps {
		return false
	}
	if at == len(m.constraints) {
		return len(chosen) == len(m.evicted)
	}
	c := m.constraints[at]
	return c.arrange(func(gives []int) bool { return m.choose(c.domains, gives, at, chosen) })
}

// choose picks each domain's pods, domain by domain, and continues with the next constraint.
func (m *spreadModel) choose(domains []*spreadDomain, gives []int, at int, chosen map[string]bool) bool {
	if m.steps++; m.steps > maxSpreadSteps {
		return false
	}
	if len(domains) == 0 {
		return m.explain(at+1, chosen)
	}
	d := domains[0]
	first := len(d.pods) - gives[0]
	if gives[0] == 0 {
		return m.choose(domains[1:], gives[1:], at, chosen)
	}
	border := d.ranks[d.pods[first]]
	var sure, equals []*corev1.Pod
	for i, p := range d.pods {
		switch order := d.ranks[p].compare(border); {
		case order > 0:
			sure = append(sure, p)
		case order == 0:
			equals = append(equals, p)
		case i >= first:
			panic("the pods are not sorted")
		}
	}
	return m.subsets(equals, gives[0]-len(sure), func(some []*corev1.Pod) bool {
		next := maps.Clone(chosen)
		for _, p := range slices.Concat(sure, some) {
			if m.evicted[keyOf(p)] && (d.ranks[p].movable || !m.nodeFit) {
				next[keyOf(p)] = true
			}
		}
		return !slices.ContainsFunc(sure, func(p *corev1.Pod) bool { return !m.may(d, p) }) &&
			m.choose(domains[1:], gives[1:], at, next)
	}, d)
}

// may reports whether a pod may be chosen: it is evicted, or would not be if it were.
func (m *spreadModel) may(d *spreadDomain, p *corev1.Pod) bool {
	return m.evicted[keyOf(p)] || m.nodeFit && !d.ranks[p].movable || !m.evictor.PreEvictionFilter(p) ||
		m.final.refuses(p) != ""
}

// subsets tries to choose n of equals, as many as possible of the evicted ones, until a choice works.
func (m *spreadModel) subsets(
	equals []*corev1.Pod, n int, try func([]*corev1.Pod) bool, d *spreadDomain,
) bool {
	var wanted, idle []*corev1.Pod
	for _, p := range equals {
		switch {
		case m.evicted[keyOf(p)]:
			wanted = append(wanted, p)
		case m.may(d, p):
			idle = append(idle, p)
		}
	}
	if len(wanted)+len(idle) < n {
		return false
	}
	if len(wanted) <= n {
		return try(slices.Concat(wanted, idle[:n-len(wanted)]))
	}
	return combine(wanted, n, nil, try)
}

// combine tries every n of pods.
func combine(pods []*corev1.Pod, n int, some []*corev1.Pod, try func([]*corev1.Pod) bool) bool {
	if n == 0 {
		return try(slices.Clone(some))
	}
	for i := range len(pods) - n + 1 {
		if combine(pods[i+1:], n-1, append(some, pods[i]), try) {
			return true
		}
	}
	return false
}

// arrange tries every way in which domains of one size share out what their places give.
func (c *spreadConstraint) arrange(try func(gives []int) bool) bool {
	gives := slices.Clone(c.gives)
	var from func(i int) bool
	from = func(i int) bool {
		if i == len(gives) {
			return try(gives)
		}
		seen := map[int]bool{}
		for j := i; j < len(gives) && len(c.domains[j].pods) == len(c.domains[i].pods); j++ {
			if seen[gives[j]] {
				continue
			}
			seen[gives[j]] = true
			gives[i], gives[j] = gives[j], gives[i]
			if from(i + 1) {
				return true
			}
			gives[i], gives[j] = gives[j], gives[i]
		}
		return false
	}
	return from(0)
}

// giveAway is balanceDomains on sizes alone, smallest first: what each place gives.
func giveAway(sizes []int, maxSkew int) []int {
	now, gives, sum := slices.Clone(sizes), make([]int, len(sizes)), 0
	for _, n := range sizes {
		sum += n
	}
	average := float64(sum) / float64(len(sizes))
	for i, j := 0, len(now)-1; i < j; {
		if float64(now[j]) <= average {
			j--
		}
		skew := now[j] - now[i]
		if skew <= maxSkew {
			i++
			continue
		}
		moved := int(min(math.Ceil(float64(now[j])-average), math.Ceil(average-float64(now[i])),
			math.Ceil(float64(skew-maxSkew)/2)))
		if moved <= 0 {
			i++
			continue
		}
		now[j] -= moved
		now[i] += moved
		gives[j] += moved
	}
	return gives
}

// spreadModel reads a case as Balance does up to its choices.
func (o *oracle) spreadModel(ctx context.Context, c drawnCase) (*spreadModel, error) {
	o.world = c.w
	p, err := o.load(text(c.drawn))
	if err != nil {
		return nil, err
	}
	factory, err := o.informers(c.w)
	if err != nil {
		return nil, err
	}
	m := &spreadModel{podsOn: c.w.podsOn()}
	if m.nodes, err = o.nodes(ctx, factory, p); err != nil {
		return nil, err
	}
	m.evictor = &fake.HandleImpl{
		ClientsetImpl: o.client, GetPodsAssignedToNodeFuncImpl: m.podsOn, SharedInformerFactoryImpl: factory,
	}
	var args *spreading.RemovePodsViolatingTopologySpreadConstraintArgs
	for _, config := range p.Profiles[0].PluginConfigs {
		switch config.Name {
		case spreading.PluginName:
			args = config.Args.(*spreading.RemovePodsViolatingTopologySpreadConstraintArgs)
		case defaultevictor.PluginName:
			plugin, err := defaultevictor.New(ctx, config.Args, m.evictor)
			if err != nil {
				return nil, err
			}
			m.evictor.EvictorFilterImpl = plugin.(frameworktypes.EvictorPlugin)
		}
	}
	m.nodeFit = args.TopologyBalanceNodeFit == nil || *args.TopologyBalanceNodeFit
	if len(m.nodes) < 2 {
		return m, nil // upstream does nothing then
	}
	return m, m.read(args)
}

// read finds the constraints, by namespace.
func (m *spreadModel) read(args *spreading.RemovePodsViolatingTopologySpreadConstraintArgs) error {
	options := podutil.NewOptions().WithFilter(m.evictor.Filter).WithLabelSelector(args.LabelSelector)
	if n := args.Namespaces; n != nil {
		options = options.WithNamespaces(sets.New(n.Include...)).WithoutNamespaces(sets.New(n.Exclude...))
	}
	filter, err := options.BuildFilterFunc()
	if err != nil {
		return err
	}
	pods, err := podutil.ListPodsOnNodes(m.nodes, m.podsOn, filter)
	if err != nil {
		return err
	}
	for _, crowd := range podutil.GroupByNamespace(pods) {
		for _, rule := range rulesOf(crowd, args.Constraints) {
			if c := m.constraint(rule, crowd); c != nil {
				m.constraints = append(m.constraints, c)
			}
		}
	}
	return nil
}

// rulesOf are the constraints of pods, each once.
func rulesOf(crowd []*corev1.Pod, actions []corev1.UnsatisfiableConstraintAction) []spreadRule {
	var rules []spreadRule
	for _, p := range crowd {
		for i := range p.Spec.TopologySpreadConstraints {
			c := &p.Spec.TopologySpreadConstraints[i]
			rule, err := ruleOf(c, p)
			known := slices.ContainsFunc(rules, func(r spreadRule) bool { return reflect.DeepEqual(r, rule) })
			if err == nil && !known && slices.Contains(actions, c.WhenUnsatisfiable) {
				rules = append(rules, rule)
			}
		}
	}
	return rules
}

// spreadRule is a constraint as far as two of one namespace may differ for upstream.
type spreadRule struct {
	maxSkew  int
	key      string
	selector labels.Selector
	// affinity and taints: the nodes that do not fit the pod's do not count.
	affinity, taints bool
	required         nodeaffinity.RequiredNodeAffinity
	tolerations      []corev1.Toleration
}

func ruleOf(c *corev1.TopologySpreadConstraint, p *corev1.Pod) (spreadRule, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return spreadRule{}, err
	}
	own := labels.Set{}
	for _, key := range c.MatchLabelKeys {
		if value, ok := p.Labels[key]; ok {
			own[key] = value
		}
	}
	if requirements, selectable := selector.Requirements(); len(own) > 0 && selectable {
		selector = labels.SelectorFromSet(own)
		for _, r := range requirements {
			selector = selector.Add(r)
		}
	}
	r := spreadRule{
		maxSkew: int(c.MaxSkew), key: c.TopologyKey, selector: selector,
		affinity: c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor,
		taints:   c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
	}
	if r.affinity {
		r.required = nodeaffinity.GetRequiredNodeAffinity(p)
	}
	if r.taints {
		r.tolerations = p.Spec.Tolerations
	}
	return r, nil
}

// counts reports whether pods could go to a node for the rule.
func (r *spreadRule) counts(n *corev1.Node) bool {
	if r.affinity {
		if match, _ := r.required.Match(n); !match { // upstream ignores the error as well
			return false
		}
	}
	return !r.taints || utils.TolerationsTolerateTaintsWithFilter(context.Background(), r.tolerations, n.Spec.Taints,
		func(taint *corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule })
}

// constraint is nil if the domains are balanced.
func (m *spreadModel) constraint(r spreadRule, crowd []*corev1.Pod) *spreadConstraint {
	domains, domainOf := map[string]*spreadDomain{}, map[string]string{}
	for _, n := range m.nodes {
		value, ok := n.Labels[r.key]
		if !ok {
			continue
		}
		domainOf[n.Name] = value
		if r.counts(n) && domains[value] == nil {
			domains[value] = &spreadDomain{}
		}
	}
	sum := 0
	for _, p := range crowd {
		value, ok := domainOf[p.Spec.NodeName]
		if !ok || p.DeletionTimestamp != nil || !r.selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		if domains[value] == nil {
			domains[value] = &spreadDomain{}
		}
		domains[value].pods = append(domains[value].pods, p)
		sum++
	}
	c := &spreadConstraint{domains: slices.SortedFunc(maps.Values(domains), func(a, b *spreadDomain) int {
		return len(a.pods) - len(b.pods)
	})}
	var sizes []int
	for _, d := range c.domains {
		sizes = append(sizes, len(d.pods))
	}
	if len(sizes) == 0 || sizes[len(sizes)-1]-sizes[0] <= r.maxSkew {
		return nil
	}
	c.gives = giveAway(sizes, r.maxSkew)
	var below []*corev1.Node
	for _, n := range m.nodes {
		value, ok := domainOf[n.Name]
		if ok && r.counts(n) && float64(len(domains[value].pods)) < float64(sum)/float64(len(sizes)) {
			below = append(below, n)
		}
	}
	for _, d := range c.domains {
		d.sort(func(p *corev1.Pod) bool { return nodeutil.PodFitsAnyOtherNode(m.podsOn, p, below) })
	}
	return c
}

// sort puts pods that fit nowhere else first, then those with wishes about nodes, then those of low priority.
func (d *spreadDomain) sort(movable func(*corev1.Pod) bool) {
	d.ranks = map[*corev1.Pod]spreadRank{}
	for _, p := range d.pods {
		r := spreadRank{movable: movable(p), priority: math.MinInt64,
			free: p.Spec.NodeSelector == nil && (p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil)}
		if p.Spec.Priority != nil {
			r.priority = int64(*p.Spec.Priority)
		}
		d.ranks[p] = r
	}
	slices.SortFunc(d.pods, func(a, b *corev1.Pod) int { return d.ranks[a].compare(d.ranks[b]) })
}
