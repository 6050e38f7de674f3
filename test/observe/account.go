package observe

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Kind is the kind of a violation.
type Kind string

// The kinds of findings.
const (
	BudgetExceeded    Kind = "budget exceeded"
	EvictedTwice      Kind = "evicted for two pods"
	EvictedForNothing Kind = "evicted for nothing"
)

// Finding is one thing that is wrong.
type Finding struct {
	Kind Kind
	// Text names the pods.
	Text string
}

// Eviction is the eviction of a bound pod, unless the observer's own side deleted it.
type Eviction struct {
	// Namespace, Name and UID are the pod's, Node is where it stood.
	Namespace, Name, UID, Node string
	// Reason is that of the pod's condition DisruptionTarget, empty if there is none.
	Reason string
}

// Account is everything observed so far. The zero value is not ready: use NewAccount.
type Account struct {
	pods      map[string]*pod
	budgets   map[string]*budget
	excused   map[string]bool
	evictions []Eviction
	exceeded  []Finding
	claims    map[claim]bool
}

// pod is the last observed state of a pod; it is kept after the pod's deletion.
type pod struct {
	namespace, name, uid, node string
	labels                     labels.Set
	priority                   int32
	ready, leaving, ended      bool
	// order is when it was bound: after so many evictions.
	order int
}

type budget struct {
	namespace, name string
	selector        labels.Selector
	desired         int
}

// claim is the content of a Preempted event.
type claim struct{ victim, preemptor, node string }

// NewAccount is an empty account.
func NewAccount() *Account {
	return &Account{
		pods: map[string]*pod{}, budgets: map[string]*budget{}, excused: map[string]bool{}, claims: map[claim]bool{},
	}
}

// Excuse excuses a pod, by namespace and name, that the observer's own side deletes.
func (a *Account) Excuse(namespace, name string) { a.excused[namespace+"/"+name] = true }

func (a *Account) isExcused(p *pod) bool { return a.excused[p.namespace+"/"+p.name] }

// Budget notes the present state of a disruption budget.
func (a *Account) Budget(b *policyv1.PodDisruptionBudget) error {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return fmt.Errorf("budget %s/%s: %w", b.Namespace, b.Name, err)
	}
	a.budgets[string(b.UID)] = &budget{
		namespace: b.Namespace, name: b.Name, selector: selector, desired: int(b.Status.DesiredHealthy),
	}
	return nil
}

// Pod notes the present state of a pod; gone marks its last state.
func (a *Account) Pod(now *corev1.Pod, gone bool) {
	p, known := a.pods[string(now.UID)]
	if !known {
		p = &pod{namespace: now.Namespace, name: now.Name, uid: string(now.UID)}
		a.pods[p.uid] = p
	}
	wasReady, wasLeaving := p.ready, p.leaving
	if p.node == "" && now.Spec.NodeName != "" {
		p.node, p.order = now.Spec.NodeName, len(a.evictions)
	}
	p.labels = now.Labels
	if now.Spec.Priority != nil {
		p.priority = *now.Spec.Priority
	}
	p.ended = p.ended || now.Status.Phase == corev1.PodSucceeded || now.Status.Phase == corev1.PodFailed
	p.leaving = p.leaving || gone || now.DeletionTimestamp != nil
	p.ready = !p.leaving && !p.ended && isReady(now)
	if p.leaving && !wasLeaving && p.node != "" && !p.ended && !a.isExcused(p) {
		a.left(p, reason(now), wasReady)
	}
}

func (a *Account) left(p *pod, reason string, wasReady bool) {
	a.evictions = append(a.evictions, Eviction{
		Namespace: p.namespace, Name: p.name, UID: p.uid, Node: p.node, Reason: reason,
	})
	if !wasReady {
		return
	}
	for _, b := range a.budgets {
		if b.namespace != p.namespace || !b.selector.Matches(p.labels) {
			continue
		}
		if left := a.healthy(b); left < b.desired {
			a.exceeded = append(a.exceeded, Finding{BudgetExceeded, fmt.Sprintf(
				"pod %s was evicted (%s), and %d of %s/%s were left, want %d",
				p.name, cmp.Or(reason, "no reason given"), left, b.namespace, b.name, b.desired)})
		}
	}
}

func (a *Account) healthy(b *budget) int {
	n := 0
	for _, p := range a.pods {
		if p.ready && p.namespace == b.namespace && b.selector.Matches(p.labels) {
			n++
		}
	}
	return n
}

// preemptedBy is kube-scheduler's message to a victim.
var preemptedBy = regexp.MustCompile(`by pod (\S+) on node (\S+?)\.?$`)

// Event notes an event; those of reason Preempted show which pod preempted which.
func (a *Account) Event(e *corev1.Event) {
	if e.Reason != "Preempted" {
		return
	}
	if found := preemptedBy.FindStringSubmatch(e.Message); found != nil {
		a.claims[claim{victim: string(e.InvolvedObject.UID), preemptor: found[1], node: found[2]}] = true
	}
}

// Evictions are all so far, in order.
func (a *Account) Evictions() []Eviction { return slices.Clone(a.evictions) }

// Preempted is how many pods were evicted for another one that is known.
func (a *Account) Preempted() int {
	victims := map[string]bool{}
	for c := range a.claims {
		victims[c.victim] = true
	}
	return len(victims)
}

// Bound is how many pods whose names begin so have been bound at some time.
func (a *Account) Bound(prefix string) int {
	n := 0
	for _, p := range a.pods {
		if p.node != "" && strings.HasPrefix(p.name, prefix) {
			n++
		}
	}
	return n
}

// Findings returns all violations up to the present state of the watches. Whether an eviction was for nothing is
// known only at the end.
func (a *Account) Findings() []Finding {
	found := slices.Clone(a.exceeded)
	byVictim := map[string][]claim{}
	for c := range a.claims {
		byVictim[c.victim] = append(byVictim[c.victim], c)
	}
	for _, victim := range slices.Sorted(maps.Keys(byVictim)) {
		claims := byVictim[victim]
		if a.pods[victim] == nil {
			continue // an event that came late, about one that had gone before the account began
		}
		if len(claims) > 1 {
			found = append(found, Finding{EvictedTwice, fmt.Sprintf("%s was evicted for %d pods", a.name(victim), len(claims))})
		}
		if slices.ContainsFunc(claims, a.used) {
			continue
		}
		c := claims[0]
		found = append(found, Finding{EvictedForNothing, fmt.Sprintf("%s was evicted from %s for %s, which %s",
			a.name(victim), c.node, a.name(c.preemptor), a.status(c.preemptor))})
	}
	return found
}

// used reports whether a victim's capacity was used by the pod it was meant for, or by a more important one.
func (a *Account) used(c claim) bool {
	p, known := a.pods[c.preemptor]
	if !known || a.isExcused(p) || p.node == c.node {
		return known
	}
	for _, other := range a.pods {
		if other.node == c.node && other.priority > p.priority && other.order > a.evicted(c.victim) {
			return true
		}
	}
	return false
}

// evicted is when a pod was evicted, in the order of evictions; after all others if it was not.
func (a *Account) evicted(uid string) int {
	at := slices.IndexFunc(a.evictions, func(e Eviction) bool { return e.UID == uid })
	if at < 0 {
		return len(a.evictions)
	}
	return at
}

func (a *Account) name(uid string) string {
	if p, known := a.pods[uid]; known {
		return p.name
	}
	return "a pod that was never seen"
}

func (a *Account) status(uid string) string {
	switch p, known := a.pods[uid]; {
	case !known:
		return "was never seen"
	case p.node == "":
		return "was never bound"
	default:
		return "went to " + p.node
	}
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func reason(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			return c.Reason
		}
	}
	return ""
}
