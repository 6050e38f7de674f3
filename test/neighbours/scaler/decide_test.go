package scaler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// stage is an autoscaler with a cluster of nodes of 4 CPUs, and a clock.
type stage struct {
	*testing.T
	cfg Config
	m   *memory
	v   view
	now time.Time
}

func newStage(t *testing.T) *stage {
	template := node("elastic")
	return &stage{
		T: t, m: newMemory(), now: time.Unix(1000, 0),
		cfg: Config{
			Template: template, Most: 10, Unneeded: 20 * time.Second, AfterAdd: 10 * time.Second, AtOnce: 4, DrainedAtOnce: 1,
		},
		v: view{storage: storage{
			claims: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{},
		}},
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
				corev1.ResourcePods: resource.MustParse("10"),
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// fixed and added put nodes into the cluster.
func (s *stage) fixed(names ...string) {
	for _, name := range names {
		s.v.nodes = append(s.v.nodes, node(name))
	}
}

func (s *stage) added(names ...string) []*corev1.Node {
	for _, name := range names {
		n := node(name)
		n.Spec.ProviderID = providerID + name
		s.v.nodes = append(s.v.nodes, n)
	}
	return s.v.nodes[len(s.v.nodes)-len(names):]
}

// pod puts a pod of a ReplicaSet into the cluster; without a node it is unschedulable.
func (s *stage) pod(name, cpu, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "a"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "set", Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
		}}},
	}
	if node == "" {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		}}
	}
	for _, c := range change {
		c(p)
	}
	s.v.pods = append(s.v.pods, p)
	return p
}

func (s *stage) decide() plan {
	s.now = s.now.Add(time.Second)
	return s.m.decide(s.cfg, s.v, s.now)
}

// wait lets loops run for a while and returns the last decision that does something.
func (s *stage) wait(d time.Duration) plan {
	var last plan
	for end := s.now.Add(d); s.now.Before(end); {
		if p := s.decide(); p.add > 0 || len(p.empty)+len(p.drain) > 0 {
			last = p
		}
	}
	return last
}

func nominated(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.NominatedNodeName = name }
}

func because(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Conditions[0].Reason = reason }
}

// A new node has 3.9 CPUs, because of its kube-proxy.
func TestNodesAreAddedForPodsThatFitNowhere(t *testing.T) {
	for name, test := range map[string]struct {
		play func(*stage)
		want int
	}{
		"none wait":         {func(s *stage) { s.fixed("f") }, 0},
		"one waits":         {func(s *stage) { s.pod("p", "1", "") }, 1},
		"three on one node": {func(s *stage) { s.pod("p", "1", ""); s.pod("q", "1", ""); s.pod("r", "1", "") }, 1},
		"four on two nodes": {func(s *stage) {
			for i := range 4 {
				s.pod(fmt.Sprint(i), "1", "")
			}
		}, 2},
		"one fits a node that is there": {func(s *stage) { s.fixed("f"); s.pod("p", "1", "") }, 0},
		"the node is full":              {func(s *stage) { s.fixed("f"); s.pod("full", "4", "f"); s.pod("p", "1", "") }, 1},
		"too large for any node":        {func(s *stage) { s.pod("p", "5", "") }, 0},
		"an error of the scheduler":     {func(s *stage) { s.pod("p", "1", "", because("SchedulerError")) }, 0},
		"a name": {func(s *stage) {
			s.fixed("f")
			s.pod("full", "4", "f")
			s.pod("p", "1", "", nominated("f"))
		}, 0},
		"the name of no node": {func(s *stage) { s.pod("p", "1", "", nominated("ghost")) }, 0},
		"a named pod has its room": {func(s *stage) {
			s.fixed("f")
			s.pod("p", "3", "", nominated("f"))
			s.pod("q", "2", "")
		}, 1},
		"new pods": {func(s *stage) {
			s.pod("p", "1", "", func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(s.now) })
		}, 0},
		"not more than allowed": {func(s *stage) {
			for i := range 20 {
				s.pod(fmt.Sprint(i), "3", "")
			}
		}, 10},
		"a node that is not ready yet": {func(s *stage) {
			s.added("e")[0].Status.Conditions = nil
			s.pod("p", "3", "")
		}, 0},
		"a pod that was selected for": {func(s *stage) {
			s.fixed("f")
			s.v.claims["ns/c"] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{selectedNode: "gone"},
			}}
			s.pod("p", "1", "", func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
				}}}
			})
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			test.play(s)
			if got := s.decide().add; got != test.want {
				t.Errorf("%d nodes, want %d", got, test.want)
			}
		})
	}
}

func TestNodesThatAreNotNeededAreRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		play         func(*stage)
		empty, drain []string
	}{
		"an empty one":  {func(s *stage) { s.added("e") }, []string{"e"}, nil},
		"not fixed":     {func(s *stage) { s.fixed("f") }, nil, nil},
		"pods can move": {func(s *stage) { s.added("e"); s.fixed("f"); s.pod("p", "1", "e") }, nil, []string{"e"}},
		"pods cannot move": {func(s *stage) {
			s.added("e")
			s.fixed("f")
			s.pod("full", "4", "f")
			s.pod("p", "1", "e")
		}, nil, nil},
		"a pod without a controller": {func(s *stage) {
			s.added("e")
			s.fixed("f")
			s.pod("p", "1", "e").OwnerReferences = nil
		}, nil, nil},
		"a pod is named to it": {func(s *stage) {
			s.added("e")
			s.pod("p", "1", "", nominated("e"))
		}, nil, nil},
		"a pod that waits fits it": {func(s *stage) { s.added("e"); s.pod("p", "1", "") }, nil, nil},
		"a budget": {func(s *stage) {
			s.added("e")
			s.fixed("f")
			s.pod("p", "1", "e")
			s.v.budgets = []*policyv1.PodDisruptionBudget{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: "b"},
				Spec: policyv1.PodDisruptionBudgetSpec{
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
				},
			}}
		}, nil, nil},
		"several, while there is room": {func(s *stage) {
			s.added("e", "g")
			s.fixed("f")
			s.pod("p", "3", "e")
			s.pod("q", "3", "g")
		}, nil, []string{"e"}},
		"it is being removed": {func(s *stage) {
			s.added("e")[0].Spec.Taints = []corev1.Taint{{Key: toBeDeleted}}
		}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			test.play(s)
			if early := s.wait(s.cfg.Unneeded); len(early.empty)+len(early.drain) > 0 {
				t.Errorf("removed after %s: %+v", s.cfg.Unneeded, early)
			}
			got := s.decide()
			slices.Sort(got.empty)
			if diff := cmp.Diff(plan{empty: test.empty, drain: test.drain}, got, cmp.AllowUnexported(plan{})); diff != "" {
				t.Errorf("the decision (-want +got):\n%s", diff)
			}
		})
	}
}

// A node that is needed for a moment begins anew, and no node is removed just after one was added.
func TestRemovalsWait(t *testing.T) {
	s := newStage(t)
	s.added("e")
	s.wait(s.cfg.Unneeded - time.Second)
	s.pod("p", "1", "e")
	s.decide()
	s.v.pods = nil
	if got := s.wait(s.cfg.Unneeded); len(got.empty) > 0 {
		t.Errorf("%v was removed, want it to wait again", got.empty)
	}
	s.pod("p", "5", "")
	s.m.added = s.now
	if got := s.wait(s.cfg.AfterAdd - time.Second); len(got.empty) > 0 {
		t.Errorf("%v was removed just after a node was added", got.empty)
	}
	if got := s.wait(2 * time.Second); len(got.empty) != 1 {
		t.Errorf("%v was removed, want the node", got.empty)
	}
}

// Pods of a node that is being emptied get a new node, if they need one.
func TestPodsOfANodeThatIsEmptiedWait(t *testing.T) {
	s := newStage(t)
	s.added("e")[0].Spec.Taints = []corev1.Taint{{Key: toBeDeleted, Effect: corev1.TaintEffectNoSchedule}}
	s.m.drained["e"] = true
	s.pod("p", "1", "e")
	if got := s.decide().add; got != 1 {
		t.Errorf("%d nodes, want 1", got)
	}
}
