package sink

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// patience bounds every wait of the tests.
const patience = 20 * time.Second

func started(t *testing.T) (*Server, kubernetes.Interface) {
	t.Helper()
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	access, err := clientcmd.RESTConfigFromKubeConfig(s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	access.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		t.Fatal(err)
	}
	return s, client
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// TestInformersSeeWhatHappens: client-go's own machinery lists, watches and binds here.
func TestInformersSeeWhatHappens(t *testing.T) {
	s, client := started(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.AddNodes([]*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddPods([]*corev1.Pod{pod("listed")}); err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	moved := make(chan *corev1.Pod, 10)
	pods := factory.Core().V1().Pods().Informer()
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { moved <- o.(*corev1.Pod) },
		UpdateFunc: func(_, o any) { moved <- o.(*corev1.Pod) },
	}); err != nil {
		t.Fatal(err)
	}
	services := factory.Core().V1().Services().Informer()
	sets := factory.Apps().V1().ReplicaSets().Informer()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced, services.HasSynced, sets.HasSynced) {
		t.Fatal("informers are not in sync in time")
	}
	next := func(name, node string) {
		t.Helper()
		select {
		case p := <-moved:
			if p.Name != name || p.Spec.NodeName != node {
				t.Fatalf("seen: pod %s on %q, want %s on %q", p.Name, p.Spec.NodeName, name, node)
			}
		case <-ctx.Done():
			t.Fatalf("pod %s on %q is never seen", name, node)
		}
	}
	next("listed", "")
	bound, err := s.AddPods([]*corev1.Pod{pod("watched")})
	if err != nil {
		t.Fatal(err)
	}
	next("watched", "")
	for _, name := range []string{"listed", "watched"} {
		if err := bind(ctx, client, name); err != nil {
			t.Fatal(err)
		}
		next(name, "n1")
	}
	select {
	case <-bound:
	case <-ctx.Done():
		t.Fatal("nobody says that all pods are bound")
	}
	if n, last := s.Bound(); n != 2 || last.IsZero() {
		t.Errorf("%d bound, the last at %v", n, last)
	}
	if strange := s.Strange(); len(strange) > 0 {
		t.Errorf("requests nobody expects: %v", strange)
	}
}

func bind(ctx context.Context, client kubernetes.Interface, name string) error {
	return client.CoreV1().Pods("default").Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}, metav1.CreateOptions{})
}

// TestNoPodIsBoundTwice: nor is a pod bound that does not exist, or that has another UID.
func TestNoPodIsBoundTwice(t *testing.T) {
	s, client := started(t)
	if _, err := s.AddPods([]*corev1.Pod{pod("a")}); err != nil {
		t.Fatal(err)
	}
	if err := bind(t.Context(), client, "b"); !errors.IsNotFound(err) {
		t.Errorf("bind of a pod that is not there: %v", err)
	}
	err := client.CoreV1().Pods("default").Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "another"},
		Target:     corev1.ObjectReference{Name: "n1"}}, metav1.CreateOptions{})
	if !errors.IsConflict(err) {
		t.Errorf("bind of another UID: %v", err)
	}
	if err := bind(t.Context(), client, "a"); err != nil {
		t.Fatal(err)
	}
	now, err := client.CoreV1().Pods("default").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || now.Spec.NodeName != "n1" {
		t.Errorf("after the bind: %v, %v", now, err)
	}
	if err := bind(t.Context(), client, "a"); !errors.IsConflict(err) {
		t.Errorf("second bind: %v", err)
	}
}

func TestConditionsAreMerged(t *testing.T) {
	s, client := started(t)
	if _, err := s.AddPods([]*corev1.Pod{pod("a")}); err != nil {
		t.Fatal(err)
	}
	patch := func(name, body string) (*corev1.Pod, error) {
		return client.CoreV1().Pods("default").Patch(t.Context(), name, types.StrategicMergePatchType, []byte(body),
			metav1.PatchOptions{}, "status")
	}
	for _, reason := range []string{"Unschedulable", "SchedulerError"} {
		body := `{"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"` + reason + `"}]}}`
		got, err := patch("a", body)
		if err != nil || len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Reason != reason {
			t.Errorf("%s: %v, %v", reason, got, err)
		}
	}
	got, err := patch("a", `{"metadata":{"annotations":{"mark":"1"}},"spec":{"nodeName":"n1"}}`)
	if err != nil || got.Annotations["mark"] != "1" || got.Spec.NodeName != "" || len(got.Status.Conditions) != 1 {
		t.Errorf("an annotation: %v, %v, want it set, and the spec left alone", got, err)
	}
	if _, err := patch("b", "{}"); !errors.IsNotFound(err) {
		t.Errorf("a pod that is not there: %v", err)
	}
	if _, err := patch("a", "no JSON"); !errors.IsBadRequest(err) {
		t.Errorf("a patch that is none: %v", err)
	}
}

// TestKindsAreTold: clients that use discovery learn of all kinds that can be listed.
func TestKindsAreTold(t *testing.T) {
	s, client := started(t)
	list, err := client.Discovery().ServerResourcesForGroupVersion("storage.k8s.io/v1")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for _, r := range list.APIResources {
		told[r.Name] = r.Kind
	}
	for name, kind := range map[string]string{"storageclasses": "StorageClass", "csinodes": "CSINode"} {
		if told[name] != kind {
			t.Errorf("%s are of kind %q, want %q", name, told[name], kind)
		}
	}
	if strange := s.Strange(); len(strange) > 0 {
		t.Errorf("requests nobody expects: %v", strange)
	}
	if _, err := client.Discovery().ServerResourcesForGroupVersion("example.com/v1"); !errors.IsNotFound(err) {
		t.Errorf("kinds of a group that is not there: %v", err)
	}
}

func TestEventsAreTaken(t *testing.T) {
	s, client := started(t)
	got, err := client.EventsV1().Events("default").Create(t.Context(), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, Reason: "Scheduled"}, metav1.CreateOptions{})
	if err != nil || got.Reason != "Scheduled" || s.Events() != 1 {
		t.Errorf("%v, %v, %d events", got, err, s.Events())
	}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod("x"), metav1.CreateOptions{}); err == nil {
		t.Error("a pod can be created through the API")
	}
	if len(s.Strange()) != 1 {
		t.Errorf("strange requests: %v, want the creation", s.Strange())
	}
}
