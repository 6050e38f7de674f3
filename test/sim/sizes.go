package sim

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
)

const (
	// largePorts are host ports of which those of one pod fill most of a document, and tooManyPorts those that no
	// document has room for.
	largePorts, tooManyPorts = 2300, 5000
	// largeTerms are rules of one pod that fit in a transaction, tooManyTerms those that do not.
	largeTerms, tooManyTerms = 24, 2 * ledger.MaxTxnOps
	// unplaceableApp begins the labels that rules of pods are about which can never be placed.
	unplaceableApp = "immense-"
	// sizedShare is the share of seeds that are about sizes; with 0 they are played on demand (-family sized).
	sizedShare = 0
	// mostLarge is how many such pods there are in a run at most.
	mostLarge = 4
)

// addLarge has a pod come that is as large as a document or a transaction, or larger.
func (c *cluster) addLarge(w *world) {
	if c.large >= mostLarge {
		return
	}
	c.large++
	p := c.newPod(1)
	switch w.rng.IntN(5) {
	case 4:
		p.Annotations = map[string]string{"filler": strings.Repeat("x", validation.TotalAnnotationSizeLimitB-len("filler"))}
		w.hit("pod with full annotations")
	case 0:
		ports(p, largePorts)
		w.hit("pod that fills a document")
	case 1:
		ports(p, tooManyPorts)
		w.hit("pod larger than a document")
	case 2:
		terms(p, "large-", largeTerms)
		w.hit("pod with many rules")
	default:
		terms(p, unplaceableApp, tooManyTerms)
		w.hit("pod with more rules than a transaction takes")
	}
	w.tracef("pod %s has %d host ports and %d rules", p.Name, len(p.Spec.Containers[0].Ports), len(repelled(p)))
	w.api.put(events.KindPod, p)
}

// ports are taken from one end of the range, so that two such pods do not go to one node.
func ports(p *corev1.Pod, n int) {
	for i := range n {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{
			HostPort: int32(10_000 + i), ContainerPort: int32(10_000 + i), Protocol: corev1.ProtocolTCP,
		})
	}
}

// terms are rules about pods that there are not.
func terms(p *corev1.Pod, app string, n int) {
	var all []corev1.PodAffinityTerm
	for i := range n {
		all = append(all, corev1.PodAffinityTerm{
			TopologyKey: corev1.LabelTopologyZone, LabelSelector: selects(fmt.Sprint(app, p.Name, "-", i)),
		})
	}
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: all,
	}}
}

// unplaceable: no transaction can place the pod, even with enough capacity.
func unplaceable(p *corev1.Pod) bool {
	return len(p.Spec.Containers[0].Ports) >= tooManyPorts || len(repelled(p)) >= tooManyTerms
}

// checkFailed is S19: no decision about a pod that is not too large fails because another is.
func (w *world) checkFailed(d events.Decision) {
	if w.cluster.family != sized || d.Kind != events.DecisionFailed {
		return
	}
	if p, ok := w.api.pod(d.Pod.UID); ok && !unplaceable(p) {
		w.note("S19", "pod %s failed, beside others that are too large: %s", p.Name, d.Message)
	}
}

// checkTerms is S19 for rules: those of a pod that no transaction can place are not registered, and so take
// nothing from others.
func (o *oracle) checkTerms(changes []ledger.Event) {
	for _, ev := range changes {
		if ev.Deleted || !strings.HasPrefix(ev.Key, registry.PrefixTerm) || ev.Key == registry.KeyTermRegistry {
			continue
		}
		var t ledgerpb.Term
		if err := proto.Unmarshal(ev.Value, &t); err != nil {
			o.w.note("form", "ledger: key %s: %v", ev.Key, err)
			continue
		}
		for _, part := range t.GetParts() {
			if app := appOf(part); strings.HasPrefix(app, unplaceableApp) {
				o.w.note("S19", "a rule about %s is registered, for a pod that can never be placed", app)
			}
		}
	}
}

// appOf is the first label value that a part of a rule asks for; empty for none.
func appOf(part *ledgerpb.TermPart) string {
	for _, r := range part.GetSelector() {
		if len(r.GetValues()) > 0 {
			return r.GetValues()[0]
		}
	}
	return ""
}

// oversized is a label by which an object is larger than a message of the log.
const oversized = "example.com/oversized"

// mostOversized is the largest number of such large objects in a run: each is expensive to copy.
const mostOversized = 2

// enlarge makes a node, or a pod, larger than a message of the log, with most of it in labels, so that these are cut.
func (c *cluster) enlarge(w *world, podUID string) {
	if !w.faults.on || c.oversized >= mostOversized {
		return
	}
	c.oversized++
	long := strings.Repeat("x", eventlog.MaxMessage)
	if nodes := w.api.nodes(); len(nodes) > 0 && w.chance(60) {
		n := nodes[w.rng.IntN(len(nodes))].DeepCopy()
		n.Labels[oversized] = long
		w.hit("node larger than a message")
		w.tracef("node %s is larger than a message", n.Name)
		w.api.put(events.KindNode, n)
		return
	}
	w.hit("pod larger than a message")
	w.tracef("pod %s is larger than a message", podUID)
	w.api.changePod(podUID, func(p *corev1.Pod) bool { p.Labels[oversized] = long; return true })
}

// shrink has all objects fit into messages again at the end: pods can be placed, and on all nodes.
func (c *cluster) shrink(w *world) {
	if w.faults.on || c.oversized == 0 {
		return
	}
	c.oversized = 0
	for _, n := range w.api.nodes() {
		if _, is := n.Labels[oversized]; is {
			n = n.DeepCopy()
			delete(n.Labels, oversized)
			w.api.put(events.KindNode, n)
		}
	}
	for _, p := range w.api.pods() {
		if _, is := p.Labels[oversized]; is {
			w.api.changePod(string(p.UID), func(p *corev1.Pod) bool { delete(p.Labels, oversized); return true })
		}
	}
}

// checkDeletions is S20: no existing object is published as deleted, however large it is.
func (w *world) checkDeletions(msgs []eventlog.Message) {
	if w.cluster.family != sized {
		return
	}
	for _, m := range msgs {
		if m.Header.Get(eventlog.HeaderOp) != events.OpDelete.String() {
			continue
		}
		uid, there := m.Header.Get(eventlog.HeaderUID), false
		switch events.Kind(m.Header.Get(eventlog.HeaderKind)) {
		case events.KindPod:
			_, there = w.api.pod(uid)
		case events.KindNode:
			there = slices.ContainsFunc(w.api.nodes(), func(n *corev1.Node) bool { return string(n.UID) == uid })
		}
		if there {
			w.note("S20", "%s %s is told of as gone, and is there",
				m.Header.Get(eventlog.HeaderKind), m.Header.Get(eventlog.HeaderName))
		}
	}
}

// sizeMutants are about steps that are taken before it is known whether a pod fits in a transaction.
func sizeMutants() []Mutant {
	return []Mutant{{
		Name: "terms-first", expected: expected{rare: true, family: sized},
		Missing:  "the rules of a pod are registered before it is looked whether it fits in a transaction",
		switches: switches{termsFirst: true},
	}}
}

// registerFirst registers some of the rules of a pod that a shard has just been offered.
func (s *shard) registerFirst(podUID string) {
	p, ok := s.w.api.pod(podUID)
	if !ok || !unplaceable(p) || len(repelled(p)) == 0 {
		return
	}
	var all []registry.RegisteredTerm
	for _, r := range repelled(p)[:8] {
		all = append(all, registry.RegisteredTerm{Term: termOf(r), Namespace: namespace})
	}
	t, err := registry.RegisterTerms(s.w.oracle.truth.Terms().Registry(), s.w.oracle.truth.Terms(), all...)
	if err != nil {
		return
	}
	s.w.transact(&s.proc, "T11", t, func(ledger.TxnResult, error) error { return nil })
}

// termOf is a rule as the ledger has it.
func termOf(r corev1.PodAffinityTerm) registry.Term {
	return registry.Term{Kind: registry.TermApart, TopologyKey: r.TopologyKey, Parts: []registry.TermPart{{
		Namespaces: []string{namespace}, Selector: []registry.Requirement{{
			Key: "app", Operator: string(metav1.LabelSelectorOpIn), Values: []string{r.LabelSelector.MatchLabels["app"]},
		}},
	}}}
}
