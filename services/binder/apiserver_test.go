package binder

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// apiServer keeps pods like the API server, behind a fake client. It enforces what the real one does on binding,
// eviction and patches, and writes each change to the log of facts, as the queue would.
type apiServer struct {
	t   *testing.T
	log *memlog.Log
	// before, if set, is called before a call; an error is the answer. carriedOut reports whether the call happens
	// all the same.
	before func(verb, subresource string, pod string) (carriedOut bool, err error)
	mu     struct {
		sync.Mutex
		rv    uint64
		pods  map[string]*corev1.Pod // by name
		binds map[string]int         // successful ones, by UID
		calls map[string]int         // by verb/subresource
	}
}

var podsResource = corev1.Resource("pods")

func newAPIServer(t *testing.T, log *memlog.Log) (*apiServer, *fake.Clientset) {
	s := &apiServer{t: t, log: log}
	s.mu.pods, s.mu.binds, s.mu.calls = map[string]*corev1.Pod{}, map[string]int{}, map[string]int{}
	client := fake.NewClientset()
	client.PrependReactor("*", "pods", s.react)
	return s, client
}

// change writes a pod and its fact, with the lock held.
func (s *apiServer) change(p *corev1.Pod) *corev1.Pod {
	s.mu.rv++
	p.ResourceVersion = strconv.FormatUint(s.mu.rv, 10)
	s.mu.pods[p.Name] = p
	published := p.DeepCopy()
	strip.Strip(published)
	s.fact(events.KindPod, published)
	return p.DeepCopy()
}

func (s *apiServer) fact(kind events.Kind, obj state.APIObject) {
	data, err := obj.Marshal()
	if err != nil {
		s.t.Error(err)
		return
	}
	s.append(events.Fact{
		Kind: kind, Op: events.OpUpsert, UID: string(obj.GetUID()), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		ResourceVersion: s.mu.rv, Progress: s.mu.rv, Cause: "watch", Object: data,
	})
}

func (s *apiServer) append(f events.Fact) {
	_, err := s.log.Append(s.t.Context(), eventlog.Facts, eventlog.AnySequence, []eventlog.Message{events.EncodeFact(f)})
	if err != nil {
		s.t.Error(err)
	}
}

func (s *apiServer) addNode(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.rv++
	s.fact(events.KindNode, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name + "-uid"), ResourceVersion: strconv.FormatUint(s.mu.rv, 10),
	}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1000")}}})
}

func (s *apiServer) addBudget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.rv++
	s.fact(events.KindDisruptionBudget, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name + "-uid"),
			ResourceVersion: strconv.FormatUint(s.mu.rv, 10)},
		Spec:   policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 2},
	})
}

func (s *apiServer) addPod(name string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(name + "-uid"), Generation: 1,
	}})
}

// run makes a pod run on a node.
func (s *apiServer) run(name, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.mu.pods[name].DeepCopy()
	p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	s.change(p)
}

// touch is another client's write that changes nothing of importance.
func (s *apiServer) touch(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.mu.pods[name].DeepCopy()
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, "touched", strconv.FormatUint(s.mu.rv, 10))
	s.change(p)
}

// bound maps each bound pod to its node. It fails the test if a pod was bound twice.
func (s *apiServer) bound() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	for _, p := range s.mu.pods {
		if p.Spec.NodeName != "" {
			out[p.Name] = p.Spec.NodeName
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(s.mu.binds)) {
		if n := s.mu.binds[uid]; n != 1 {
			s.t.Errorf("S2: pod %s was bound %d times", uid, n)
		}
	}
	return out
}

func (s *apiServer) pod(name string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.pods[name].DeepCopy()
}

func (s *apiServer) calls(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.calls[what]
}

func (s *apiServer) react(action clienttesting.Action) (bool, runtime.Object, error) {
	name := nameOf(action)
	carriedOut, injected := true, error(nil)
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil {
		carriedOut, injected = before(action.GetVerb(), action.GetSubresource(), name)
	}
	if !carriedOut {
		return true, nil, injected
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.calls[action.GetVerb()+"/"+action.GetSubresource()]++
	obj, err := s.serve(action, name)
	if injected != nil {
		return true, nil, injected
	}
	return true, obj, err
}

func nameOf(action clienttesting.Action) string {
	switch a := action.(type) {
	case clienttesting.CreateActionImpl:
		if m, ok := a.Object.(metav1.Object); ok {
			return m.GetName()
		}
	case clienttesting.GetActionImpl:
		return a.Name
	case clienttesting.PatchActionImpl:
		return a.Name
	}
	return ""
}

func (s *apiServer) serve(action clienttesting.Action, name string) (runtime.Object, error) {
	p, ok := s.mu.pods[name]
	if !ok {
		return nil, apierrors.NewNotFound(podsResource, name)
	}
	switch a := action.(type) {
	case clienttesting.GetActionImpl:
		return p.DeepCopy(), nil
	case clienttesting.PatchActionImpl:
		return s.patch(p, a)
	case clienttesting.CreateActionImpl:
		switch obj := a.Object.(type) {
		case *corev1.Binding:
			return nil, s.bind(p.DeepCopy(), obj)
		case *policyv1.Eviction:
			return nil, s.evict(p.DeepCopy(), obj)
		}
	}
	return nil, fmt.Errorf("unexpected call %s", action.GetVerb())
}

func (s *apiServer) bind(p *corev1.Pod, b *corev1.Binding) error {
	switch {
	case b.UID != p.UID:
		return conflict(p, "precondition failed: UID")
	case b.ResourceVersion != p.ResourceVersion:
		return conflict(p, "precondition failed: resourceVersion")
	case p.Spec.NodeName != "":
		return conflict(p, "pod is already assigned to node "+p.Spec.NodeName)
	case p.DeletionTimestamp != nil:
		return conflict(p, "pod is being deleted")
	}
	p.Spec.NodeName = b.Target.Name
	for k, v := range b.Annotations {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, k, v)
	}
	s.mu.binds[string(p.UID)]++
	s.change(p)
	return nil
}

func conflict(p *corev1.Pod, message string) error {
	return apierrors.NewConflict(podsResource, p.Name, errors.New(message))
}

func (s *apiServer) evict(p *corev1.Pod, e *policyv1.Eviction) error {
	if *e.DeleteOptions.Preconditions.UID != p.UID {
		return conflict(p, "precondition failed: UID")
	}
	if len(e.DeleteOptions.DryRun) == 0 {
		now := metav1.Now().Rfc3339Copy() // as it is read back
		p.DeletionTimestamp = &now
		s.change(p)
	}
	return nil
}

// patch applies a patch as the API server does: a patch of the status does not change the spec, and an invalid result
// changes nothing.
func (s *apiServer) patch(old *corev1.Pod, a clienttesting.PatchActionImpl) (runtime.Object, error) {
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, a.GetPatch(), corev1.Pod{})
	if err != nil {
		return nil, err
	}
	p := &corev1.Pod{}
	if err := json.Unmarshal(after, p); err != nil {
		return nil, err
	}
	if p.UID != old.UID || p.ResourceVersion != old.ResourceVersion {
		return nil, conflict(old, "precondition failed")
	}
	if a.GetSubresource() == "status" {
		p.Spec = old.Spec
	}
	invalid := validation.ValidateObjectMetaUpdate(&p.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	if len(invalid) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, p.Name, invalid)
	}
	if equality.Semantic.DeepEqual(p, old) {
		return old.DeepCopy(), nil // the resourceVersion does not move
	}
	return s.change(p), nil
}
