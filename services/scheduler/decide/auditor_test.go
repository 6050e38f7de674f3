package decide_test

import (
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
)

// auditor checks every placement, in the order of the ledger, against everything placed before it: whatever the
// shards' views were, the rules must hold. A deleted pod whose deletion the decision had not read may still be
// counted where that helps (test/model/guards).
type auditor struct {
	live map[string]*placedPod
	// open are commits whose decisions have not been reported yet, by the token of each placement.
	open   map[string]*audited
	checks map[string]int
	// nodeFact are the sequences of the facts about nodes, by name.
	nodeFact map[string]uint64
	// broken lists the rules that placements have broken.
	broken []string
}

// placedPod is a placed pod.
type placedPod struct {
	pod   *corev1.Pod
	node  string
	token ledger.Token
	// gone is the sequence of the fact of its deletion, bound of its bind; 0 for not yet.
	gone, bound uint64
}

// audited is a commit: the pods that existed at the time, and what it has placed so far, in the order of the
// reports. (A placement that was bound and handed over before a lost answer was repeated is never reported: unreported
// are placements that may have come before any other of the commit.)
type audited struct {
	before     []placedPod
	unreported map[string]placedPod
}

func newAuditor() *auditor {
	return &auditor{
		live: map[string]*placedPod{}, open: map[string]*audited{}, checks: map[string]int{}, nodeFact: map[string]uint64{},
	}
}

func (a *auditor) deleted(uid string, sequence uint64) {
	if s, ok := a.live[uid]; ok {
		s.gone = sequence
	}
}

func (a *auditor) boundAt(uid string, sequence uint64) {
	if s, ok := a.live[uid]; ok {
		s.bound = sequence
	}
}

// committed records a transaction of the ledger.
func (a *auditor) committed(w *world, batch ledger.EventBatch) {
	commit := &audited{unreported: map[string]placedPod{}}
	for _, s := range a.live {
		commit.before = append(commit.before, *s)
	}
	for _, ev := range batch.Events {
		if strings.HasPrefix(ev.Key, registry.PrefixTerm) && ev.Deleted {
			a.checks["dropped"]++
		}
		if len(ev.Key) < 2 || ev.Key[:2] != ledger.PrefixNode || ev.Deleted {
			continue
		}
		d, err := codec.DecodeNodeDoc(ev.KV)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range d.Entries {
			// A stale offer may reserve once more for a pod that is bound: that has no effect.
			if old := a.live[e.PodUID]; e.Role != ledger.RoleReservation || e.State == ledger.Held ||
				old != nil && (old.token == e.Token || old.gone != math.MaxUint64) {
				continue
			}
			s := &placedPod{node: d.NodeName, token: e.Token, pod: &corev1.Pod{}}
			if pod, ok := w.pods[e.PodUID]; ok {
				s.pod = pod.DeepCopy()
			}
			if s.pod.ResourceVersion != fmt.Sprint(e.PodRV) {
				s.gone = math.MaxUint64 // deleted or changed before: it will never be bound
			}
			a.live[e.PodUID] = s
			a.open[e.Token.String()] = commit
			commit.unreported[e.PodUID] = *s
		}
	}
}

// decided checks the placements that a step has reported, in the order in which they were decided.
func (a *auditor) decided(w *world, decisions []events.Decision) {
	for _, d := range decisions {
		commit, ok := a.open[d.Token]
		if d.Kind != events.DecisionPlaced || !ok {
			continue
		}
		delete(a.open, d.Token)
		s := a.live[d.Pod.UID]
		delete(commit.unreported, d.Pod.UID)
		if s.gone != math.MaxUint64 {
			a.check(w, s, commit, d.FactSequence)
		}
		commit.before = append(commit.before, *s)
	}
}

func (a *auditor) check(w *world, s *placedPod, commit *audited, facts uint64) {
	a.checkApart(w, s, commit.before)
	for _, c := range s.pod.Spec.TopologySpreadConstraints {
		a.checks["spread"]++
		a.checkSpread(w, s, c, commit, facts)
	}
	if affinity := s.pod.Spec.Affinity; affinity != nil && affinity.PodAffinity != nil {
		a.checks["together"]++
		a.checkTogether(w, s, affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0], commit.before, facts)
	}
}

// checkApart checks anti-affinity in both directions.
func (a *auditor) checkApart(w *world, s *placedPod, others []placedPod) {
	a.checks["apart"] += len(repelled(s.pod))
	for _, o := range others {
		if o.gone != 0 {
			continue
		}
		for _, t := range repelled(s.pod) {
			if selects(t.LabelSelector, o.pod) && w.sameDomain(t.TopologyKey, s.node, o.node) {
				w.violated(s, "shares its %s with %s on %s, which it repels", t.TopologyKey, o.pod.Name, o.node)
			}
		}
		for _, t := range repelled(o.pod) {
			if selects(t.LabelSelector, s.pod) && w.sameDomain(t.TopologyKey, s.node, o.node) {
				w.violated(s, "shares its %s with %s on %s, which repels it", t.TopologyKey, o.pod.Name, o.node)
			}
		}
	}
}

func repelled(p *corev1.Pod) []corev1.PodAffinityTerm {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// checkSpread checks hard spread. Nodes are only added here, so the decision had no more domains than exist now; a
// domain that it did not know does not count against it.
func (a *auditor) checkSpread(
	w *world, s *placedPod, c corev1.TopologySpreadConstraint, commit *audited, facts uint64,
) {
	counted := map[string]int{}
	for _, n := range w.nodeObjects {
		if value, ok := n.Labels[c.TopologyKey]; ok && w.nodeFact[n.Name] <= facts {
			counted[value] += 0
		}
	}
	for _, o := range commit.unreported {
		if o.gone == math.MaxUint64 || selects(c.LabelSelector, o.pod) {
			counted[w.nodeObjects[o.node].Labels[c.TopologyKey]]++
		}
	}
	here := 1
	for _, o := range commit.before {
		// The labels of a pod that changed before it was placed are not known here.
		if o.gone != math.MaxUint64 && !selects(c.LabelSelector, o.pod) {
			continue
		}
		domain := w.nodeObjects[o.node].Labels[c.TopologyKey]
		if o.gone == 0 && w.sameDomain(c.TopologyKey, s.node, o.node) {
			here++
		}
		if _, known := counted[domain]; known && (o.gone == 0 || o.gone > facts) {
			counted[domain]++
		}
	}
	least := here
	for _, n := range counted {
		least = min(least, n)
	}
	if here-least > int(c.MaxSkew) {
		w.violated(s, "is one of %d in its %s, another has %d (%v)", here, c.TopologyKey, least, counted)
	}
}

func (a *auditor) checkTogether(w *world, s *placedPod, t corev1.PodAffinityTerm, others []placedPod, facts uint64) {
	hasPeer := false
	for _, o := range others {
		if !selects(t.LabelSelector, o.pod) || o.gone != 0 && o.gone <= facts {
			continue
		}
		if w.sameDomain(t.TopologyKey, s.node, o.node) && o.bound > 0 && o.bound <= facts {
			return
		}
		hasPeer = hasPeer || o.gone == 0
	}
	if hasPeer || !selects(t.LabelSelector, s.pod) {
		w.violated(s, "has no bound pod to follow in its %s, and is not the first", t.TopologyKey)
	}
}

func (w *world) violated(s *placedPod, format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf("%s on %s ", s.pod.Name, s.node)+fmt.Sprintf(format, args...))
}

func (w *world) sameDomain(key, a, b string) bool {
	x, ok := w.nodeObjects[a].Labels[key]
	y, and := w.nodeObjects[b].Labels[key]
	return ok && and && x == y
}

func selects(by *metav1.LabelSelector, p *corev1.Pod) bool {
	s, err := metav1.LabelSelectorAsSelector(by)
	return err == nil && s.Matches(labels.Set(p.Labels))
}
