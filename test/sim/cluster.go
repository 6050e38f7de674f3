package sim

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// cluster models the users of the simulated cluster: administrators, controllers and kubelets.
type cluster struct {
	family family
	made   int
	nodes  int
	// rules: some pods have rules about pods on other nodes.
	rules bool
	// churning: nodes are cordoned and pods changed all the time, so that much is fenced.
	churning bool
	// ranked: pods differ in priority. strict: only Berth evicts pods that budgets cover.
	ranked, strict bool
	// crowded: there are many pods from the start, and evictions are asked for all the time.
	// lingering: pods take long to end.
	crowded, lingering bool
	amounts
	// settled: pods are not moved any more.
	settled bool
	// closedUntil is until when no budget allows anything; 0 while they do.
	closedUntil time.Duration
	tokens      uint64
	restarting
	inventory
}

// amounts are how many nodes and pods there are.
type amounts struct {
	// nodesFirst and podsFirst are those when it begins.
	nodesFirst, podsFirst int
	// groups is the number of the next group, or of the next object of one.
	groups int
	// important are the priorities of groups that have one, by name.
	important map[string]int32
	// replicas is how many pods the controllers make, and make again when they go.
	replicas int
	// large counts the pods that are as large as documents and transactions.
	large int
	// oversized counts the objects that are larger than a message of the log.
	oversized int
}

// restarting is the progress of the administrators who restart the shards.
type restarting struct {
	// done is how many of their steps are.
	done int
	// awaited is the resourceVersion that the log must have reached before they continue. before is that of the last
	// fact behind which they closed a node.
	awaited, before uint64
}

const (
	namespace = "d"
	// maxPods is how many pods there are at a time.
	maxPods = 12
	// podCPU is the request of each pod. A node has capacity for a few of them.
	podCPU = 100
)

func (c *cluster) populate(w *world) {
	w.api.put(events.KindNamespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, UID: "ns-d"}})
	c.important = map[string]int32{}
	c.reregistrations, c.registered = map[string]int{}, map[types.UID]uint64{}
	c.drawWorkload(w)
	if c.family == equipped {
		w.api.put(events.KindDeviceClass, &resourcev1.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: deviceClass, UID: "class-" + deviceClass},
		})
	}
	for range c.nodesFirst {
		c.addNode(w)
	}
	if w.chance(70) || w.budgets || c.full() {
		w.api.put(events.KindDisruptionBudget, newBudget("a", intstr.FromInt32(c.stay(w))))
	}
	if c.family == claimed {
		c.claimVolumes(w)
	}
	for range c.podsFirst {
		c.addPod(w)
	}
	c.replace(w, 100)
	if c.family == massive {
		c.fillOneNode(w)
	}
}

// stay is how many pods a budget keeps.
func (c *cluster) stay(w *world) int32 {
	switch c.family {
	case contested:
		return w.rng.Int32N(3)
	case succession:
		return 0
	}
	return w.rng.Int32N(5)
}

func (c *cluster) addNode(w *world) {
	n := c.newNode(1 + w.rng.IntN(3))
	w.api.put(events.KindNode, n)
	if c.family == equipped {
		c.addSlice(w, n.Name)
	}
}

// newNode is a node with room for so many ordinary pods.
func (c *cluster) newNode(pods int) *corev1.Node {
	name := fmt.Sprintf("n%d", c.nodes)
	zone := zones[c.nodes%len(zones)]
	c.nodes++
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: zone,
		}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(podCPU*int64(pods), resource.DecimalSI),
			corev1.ResourceMemory: resource.MustParse("64Gi"),
			corev1.ResourcePods:   resource.MustParse("512"),
		}},
	}
}

// zones are the zones of nodes, in turn.
var zones = []string{"x", "y", "z"}

func selects(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// kindsOfPods are the variants of pods with scheduling rules. The first ones are plain pods.
var kindsOfPods = []func(p *corev1.Pod){
	func(*corev1.Pod) {},
	func(p *corev1.Pod) { apart(p, "apart", "apart") },
	// Ever new ones, so that terms are registered all the time.
	func(p *corev1.Pod) {
		apart(p, "repel", "a", fmt.Sprintf("b%d", len(p.Name)+int(p.Name[len(p.Name)-1])%7))
	},
	func(p *corev1.Pod) {
		p.Labels["app"] = "spread"
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: selects("spread"),
		}}
	},
}

func apart(p *corev1.Pod, app string, from ...string) {
	p.Labels["app"] = app
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{
					Key: "app", Operator: metav1.LabelSelectorOpIn, Values: from,
				}},
			}},
		},
	}}
}

// newPod is a pod that takes the room of so many ordinary ones.
func (c *cluster) newPod(size int64) *corev1.Pod {
	name := fmt.Sprintf("p%d", c.made)
	c.made++
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID("pod-" + name), Generation: 1,
			Labels: map[string]string{"app": "a"}, CreationTimestamp: metav1.Unix(int64(c.made), 0),
		},
		Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewMilliQuantity(podCPU*size, resource.DecimalSI),
			}},
		}}},
	}
}

func (c *cluster) addPod(w *world) {
	p := c.newPod(1)
	if c.ranked {
		all := c.priorities(w)
		p.Spec.Priority = &all[w.rng.IntN(len(all))]
	}
	if w.chance(10) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
	}
	if c.strict && w.chance(50) {
		own(p, 0)
	}
	if c.family == claimed {
		wantsClaim(w, p)
	}
	if c.family == equipped {
		if claim := wantsDevice(w, p); claim != nil {
			defer w.api.put(events.KindResourceClaim, claim)
		}
	}
	c.requestable(w, p)
	if c.rules {
		kindsOfPods[w.rng.IntN(len(kindsOfPods))](p)
	}
	w.api.put(events.KindPod, p)
}

// act is one thing that a user or a controller does.
func (c *cluster) act(w *world) error {
	if w.apiAway() {
		return nil
	}
	c.reopen(w)
	pods := w.api.pods()
	if len(pods) == 0 || len(pods) < maxPods && !c.fewArrivals() && w.chance(40) {
		c.addPod(w)
		return nil
	}
	if c.strict && w.chance(30) {
		for range 2 {
			c.evict(w, pods[w.rng.IntN(len(pods))])
		}
		return nil
	}
	p := pods[w.rng.IntN(len(pods))]
	uid := string(p.UID)
	switch {
	case c.full() && w.chance(90):
		c.contest(w, p)
		return nil
	case c.movesOnly() && w.chance(95):
		c.scale(w, p)
		return nil
	case c.family == grouped && w.chance(60):
		c.form(w)
		return nil
	case c.family == restarted && w.chance(70):
		c.restart(w, p)
		return nil
	case c.family == sized && w.chance(15):
		c.addLarge(w)
		return nil
	case c.family == sized && w.chance(8):
		c.enlarge(w, uid)
		return nil
	case c.family == registered && w.chance(45):
		c.turnOver(w)
		return nil
	case c.family == refreshed && w.chance(60), c.family == massive && w.chance(90):
		c.touch(w, uid)
		return nil
	case c.crowded && w.chance(15):
		c.evict(w, p)
		if w.chance(60) {
			w.api.delete(uid)
		}
		return nil
	}
	c.anyEvent(w, p)
	return nil
}

// anyEvent draws an event that happens in every family, to a pod or elsewhere.
func (c *cluster) anyEvent(w *world, p *corev1.Pod) {
	uid := string(p.UID)
	kind := w.rng.IntN(13)
	if c.churning && w.chance(50) {
		kind = []int{3, 6, 7, 7}[w.rng.IntN(4)]
	}
	switch kind {
	case 0, 1, 2:
		if !c.strict || p.Spec.NodeName == "" {
			w.api.delete(uid)
		}
	case 3, 4, 5:
		c.touch(w, uid)
	case 6:
		if p.Spec.NodeName == "" && !c.rules {
			w.hit("labels of a waiting pod changed")
			w.api.changePod(uid, func(p *corev1.Pod) bool { p.Labels["version"] = fmt.Sprint(w.api.rv); return true })
		}
	case 7:
		c.cordon(w)
	case 8:
		if c.nodes < 7 && w.chance(20) {
			c.addNode(w)
		}
	case 9:
		c.evict(w, p)
	case 10:
		w.api.changePod(uid, ungate)
	case 11:
		w.disruptionController()
	case 12:
		if w.chance(40) {
			c.turnOver(w)
		}
	}
}

// touch changes what no decision looks at.
func (c *cluster) touch(w *world, uid string) {
	w.hit("pod touched")
	w.api.changePod(uid, func(p *corev1.Pod) bool {
		return annotate(p, "example.com/touched", fmt.Sprint(w.api.rv)) && annotationsFit(p)
	})
}

func ungate(p *corev1.Pod) bool {
	had := len(p.Spec.SchedulingGates) > 0
	p.Spec.SchedulingGates = nil
	return had
}

func (c *cluster) cordon(w *world) {
	if c.strict {
		return // a place on a node that is no longer eligible is given up, even if pods were evicted for it
	}
	nodes := w.api.nodes()
	n := nodes[w.rng.IntN(len(nodes))].DeepCopy()
	if n.Spec.Unschedulable || w.chance(30) {
		n.Spec.Unschedulable = !n.Spec.Unschedulable
		w.api.put(events.KindNode, n)
	}
}

// evict is an eviction that a descheduler requests.
func (c *cluster) evict(w *world, p *corev1.Pod) {
	if p.Spec.NodeName == "" {
		return
	}
	last, err := w.log.Last(w.ctx, eventlog.Facts)
	if err != nil {
		return
	}
	c.tokens++
	msg := events.EncodeDecision(events.Decision{
		Kind: events.DecisionEvict, Actor: "descheduler-0", SchedulerName: p.Spec.SchedulerName,
		Pod:   events.PodRef{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name},
		Token: ledger.Token(c.tokens).String(), NodeName: p.Spec.NodeName, FactSequence: last, Strategy: "sim",
	})
	_, _ = w.log.Append(w.ctx, eventlog.Decisions, eventlog.AnySequence, []eventlog.Message{msg}) // asked for or not
}

// kubelets finish the deletion of pods, and now and then a pod ends by itself.
func (c *cluster) kubelets(w *world, percent int) {
	if w.apiAway() {
		return
	}
	c.replace(w, percent)
	c.podGC(w, percent)
	c.migrate(w, percent)
	for _, p := range w.api.pods() {
		switch {
		case p.Spec.NodeName == "":
		case p.DeletionTimestamp != nil:
			if w.chance(percent) && (!c.lingering || !w.faults.on || w.chance(25)) {
				w.api.remove(events.KindPod, string(p.UID))
			}
		case w.faults.on && !c.strict && c.family != massive && w.chance(1):
			w.hit("pod ended")
			w.api.changePod(string(p.UID), func(p *corev1.Pod) bool {
				ended := p.Status.Phase == corev1.PodSucceeded
				p.Status.Phase = corev1.PodSucceeded
				return !ended
			})
		}
	}
}
