package audit

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/audit/fit"
	"github.com/berth-scheduler/berth/pkg/audit/mark"
	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// scenario builds a history: each method is one event, at the next revision of the ledger or the next resourceVersion.
type scenario struct {
	testing.TB
	records  []recording.Record
	revision int64
	rv       uint64
	docs     map[string]ledger.NodeDoc
	pods     map[string]*corev1.Pod
	nodes    map[string]*corev1.Node
	podRV    map[string]uint64
	tokens   map[string]ledger.Token
	attempts ledger.Token
	seconds  int64
	// regardless is the value of Regardless in claims on budgets.
	regardless bool
}

// begin returns the scenario of a ledger in which shard "s1" owns every partition, and of an empty API server.
func begin(t testing.TB) *scenario {
	s := &scenario{
		TB: t, rv: 100, docs: map[string]ledger.NodeDoc{}, pods: map[string]*corev1.Pod{},
		nodes: map[string]*corev1.Node{}, podRV: map[string]uint64{}, tokens: map[string]ledger.Token{},
	}
	list := recording.Ledger{Revision: 1, Listed: true}
	for p := range int32(ledger.Partitions) {
		list.Events = append(list.Events, recording.LedgerEvent{
			Key: roster.KeyOwn(p), Value: s.must(roster.EncodeOwner(roster.Owner{Member: "s1"})), Create: 1, Mod: 1,
		})
	}
	s.revision = 1
	s.records = append(s.records, recording.Record{Ledger: &list})
	return s
}

func (s *scenario) must(value []byte, err error) []byte {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	return value
}

// happens appends one version of an object.
func (s *scenario) happens(o recording.Object) uint64 {
	s.rv++
	o.RV = s.rv
	s.records = append(s.records, recording.Record{Object: &o})
	return s.rv
}

func (s *scenario) node(name, cpu string, labels map[string]string) *scenario {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), Labels: labels}}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: resource.MustParse("10"),
	}
	s.nodes[name] = n
	s.happens(recording.Object{Kind: recording.KindNode, UID: string(n.UID), Node: n})
	s.docs[name] = ledger.NodeDoc{NodeUID: string(n.UID), NodeName: name}
	return s
}

func (s *scenario) change(name string, f func(*corev1.Node)) {
	n := s.nodes[name].DeepCopy()
	f(n)
	s.nodes[name] = n
	s.happens(recording.Object{Kind: recording.KindNode, UID: string(n.UID), Node: n})
}

func (s *scenario) pod(name, cpu string, change ...func(*corev1.Pod)) *scenario {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID(name + "-uid")}}
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}}}
	for _, c := range change {
		c(p)
	}
	s.pods[name] = p
	s.podRV[name] = s.happens(recording.Object{Kind: recording.KindPod, UID: string(p.UID), Pod: p})
	return s
}

// update writes the next version of a pod.
func (s *scenario) update(name string, change func(*corev1.Pod)) uint64 {
	p := s.pods[name].DeepCopy()
	change(p)
	s.pods[name] = p
	s.podRV[name] = s.happens(recording.Object{Kind: recording.KindPod, UID: string(p.UID), Pod: p})
	return s.podRV[name]
}

func (s *scenario) remove(name string) uint64 {
	return s.happens(recording.Object{Kind: recording.KindPod, UID: name + "-uid", Gone: true})
}

// entry returns the entry of a new attempt at a pod.
func (s *scenario) entry(name string) ledger.Entry {
	s.attempts++
	s.tokens[name] = s.attempts
	p := s.pods[name]
	return ledger.Entry{
		PodUID: name + "-uid", Namespace: "d", Name: name, Role: ledger.RoleReservation, State: ledger.Committed,
		PodRV: s.podRV[name], Token: s.attempts, Shard: "s1", Ports: fit.Ports(p), Requests: fit.AmountsOf(requestList(p)),
	}
}

func requestList(p *corev1.Pod) corev1.ResourceList { return p.Spec.Containers[0].Resources.Requests }

// write puts documents in one transaction.
func (s *scenario) write(docs ...ledger.NodeDoc) {
	s.Helper()
	s.revision++
	batch := recording.Ledger{Revision: s.revision}
	for _, d := range docs {
		d.Entries, d.HW = slices.Clone(d.Entries), maps.Clone(d.HW)
		batch.Events = append(batch.Events, recording.LedgerEvent{
			Key: ledger.KeyNode(d.NodeUID), Value: s.must(codec.EncodeNodeDoc(d)), Mod: s.revision,
		})
		s.docs[d.NodeName] = d
	}
	s.records = append(s.records, recording.Record{Ledger: &batch})
}

// key puts or deletes any key.
func (s *scenario) key(ev recording.LedgerEvent) {
	s.revision++
	ev.Mod = s.revision
	if ev.Create == 0 {
		ev.Create = s.revision
	}
	batch := recording.Ledger{Revision: s.revision, Events: []recording.LedgerEvent{ev}}
	s.records = append(s.records, recording.Record{Ledger: &batch})
}

// edit changes and writes one document.
func (s *scenario) edit(node string, change func(*ledger.NodeDoc)) {
	s.Helper()
	d := s.docs[node]
	d.Entries, d.HW = slices.Clone(d.Entries), maps.Clone(d.HW)
	if d.HW == nil {
		d.HW = map[string]uint64{}
	}
	change(&d)
	s.write(d)
}

// place reserves a node for pods, in one transaction.
func (s *scenario) place(node string, pods ...string) *scenario {
	s.Helper()
	s.edit(node, func(d *ledger.NodeDoc) {
		d.HW[ledger.KindNode] = s.rv
		for _, p := range pods {
			d.Entries = append(d.Entries, s.entry(p))
		}
	})
	return s
}

// bind binds a pod with the token of its last attempt.
func (s *scenario) bind(pod, node string) uint64 {
	return s.update(pod, func(p *corev1.Pod) {
		p.Spec.NodeName = node
		p.Annotations = map[string]string{mark.Attempt: s.tokens[pod].String()}
	})
}

// bindFull is bind for a pod whose annotations are full.
func (s *scenario) bindFull(pod, node string) uint64 {
	return s.update(pod, func(p *corev1.Pod) {
		p.Spec.NodeName = node
		p.Status.Conditions = []corev1.PodCondition{{
			Type: mark.Attempt, Status: corev1.ConditionTrue, Message: s.tokens[pod].String() + " " + node,
		}}
	})
}

// fenceFull is fence for a pod whose annotations are full.
func (s *scenario) fenceFull(pod string) uint64 {
	return s.update(pod, func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: mark.Fence, Status: corev1.ConditionTrue, Message: s.tokens[pod].String() + "-1",
		}}
	})
}

// foreign binds a pod as another scheduler would.
func (s *scenario) foreign(pod, node string) uint64 {
	return s.update(pod, func(p *corev1.Pod) { p.Spec.NodeName = node })
}

// drop removes an entry from a document and raises the high-water mark.
func (s *scenario) drop(node, pod string, hw uint64) {
	s.Helper()
	s.edit(node, func(d *ledger.NodeDoc) {
		d.Entries = slices.DeleteFunc(d.Entries, func(e ledger.Entry) bool { return e.Name == pod })
		d.HW[ledger.KindPod] = max(hw, d.HW[ledger.KindPod])
	})
}

// state sets the state of a reservation.
func (s *scenario) state(node, pod string, to ledger.State) {
	s.Helper()
	s.edit(node, func(d *ledger.NodeDoc) {
		for i := range d.Entries {
			if d.Entries[i].Name == pod {
				d.Entries[i].State = to
				if to == ledger.Fencing {
					d.Entries[i].Cause = ledger.FenceByPod
				}
			}
		}
	})
}

// fence makes the change that a fence makes to a pod.
func (s *scenario) fence(pod string) uint64 {
	return s.update(pod, func(p *corev1.Pod) {
		p.Annotations = map[string]string{mark.Fence: s.tokens[pod].String() + "-1"}
	})
}

// mark orders all records so far before all later ones, one second after the last mark.
func (s *scenario) mark() { s.later(1) }

func (s *scenario) later(seconds int64) {
	s.seconds += seconds
	s.records = append(s.records, recording.Record{Mark: &recording.Mark{
		Ledger: s.revision, Objects: s.rv, Until: s.revision, Unix: 1000 * s.seconds,
	}})
}

// end returns the record that closes the history.
func (s *scenario) end() recording.Record {
	return recording.Record{
		End: &recording.End{Objects: s.rv, Ledger: s.revision, Reason: recording.EndStopped},
	}
}

// finds ends the scenario and requires exactly these findings, each as "violation S1 node/n pod/d/a".
func (s *scenario) finds(want ...string) *Report {
	s.Helper()
	s.records = append(s.records, s.end())
	report, err := ReplayRecords(s.records)
	if err != nil {
		s.Fatal(err)
	}
	var got, lines []string
	for _, f := range report.Findings {
		got = append(got, strings.Join(append([]string{string(f.Severity), f.Invariant}, f.Objects...), " "))
		lines = append(lines, f.String())
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("findings (-want +got):\n%s\n%s", diff, strings.Join(lines, "\n"))
	}
	return report
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{key: value} }
}

func apart(topologyKey, key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: topologyKey, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
			}},
		}}
	}
}

func together(topologyKey, key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: topologyKey, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
			}},
		}}
	}
}

func even(topologyKey, key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: topologyKey, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
		}}
	}
}

func port(n int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: n}} }
}

func succeeds(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
