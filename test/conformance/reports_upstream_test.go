package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	toolsevents "k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	upstreamscheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/events"
)

// recorder records events instead of sending them. It is safe for concurrent use.
type recorder struct {
	controller string
	// scheduled is called after an event of a bind.
	scheduled func()
	mu        *struct {
		sync.Mutex
		list []report
	}
}

// Eventf implements events.EventRecorder.
//
//nolint:paramcount // the interface is client-go's
func (r recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	e := report{
		Controller: r.controller, Regarding: nameOfObject(regarding), Related: nameOfObject(related),
		Type: kind, Reason: reason, Action: action, Note: fmt.Sprintf(note, args...),
	}
	r.mu.Lock()
	r.mu.list = append(r.mu.list, e)
	r.mu.Unlock()
	if reason == "Scheduled" {
		r.scheduled()
	}
}

// WithLogger implements events.EventRecorderLogger.
func (r recorder) WithLogger(klog.Logger) toolsevents.EventRecorderLogger { return r }

// nameOfObject returns podName of a pod; empty for none. Upstream gives preemptors in a type of its own.
func nameOfObject(obj runtime.Object) string {
	pod, ok := obj.(metav1.Object)
	if !ok {
		return ""
	}
	return podName(events.PodRef{UID: string(pod.GetUID()), Namespace: pod.GetNamespace(), Name: pod.GetName()})
}

// podName is the name by which events of both sides are about a pod; empty for none.
func podName(p events.PodRef) string {
	if p == (events.PodRef{}) {
		return ""
	}
	return fmt.Sprintf("%s/%s %s", p.Namespace, p.Name, p.UID)
}

// objects returns the objects of the case, in the order of its facts.
func (c *extendedCase) objects() (list []runtime.Object) {
	list = c.otherObjects()
	for _, n := range c.nodes {
		list = append(list, n)
	}
	for _, p := range append(slices.Concat(c.existing, c.waiting), c.pod) {
		list = append(list, p)
	}
	return list
}

// number gives each object the resourceVersion that its fact has.
func (c *extendedCase) number() {
	for i, obj := range c.objects() {
		if o, ok := obj.(metav1.Object); ok {
			o.SetResourceVersion(fmt.Sprint(i + 1))
		}
	}
}

// server is a fake API server with everything that a case has. It calls bound for each Binding.
func (c *extendedCase) server(bound func(node string)) *fake.Clientset {
	objects := c.objects()
	for i, obj := range objects {
		objects[i] = obj.DeepCopyObject()
	}
	client := fake.NewClientset(objects...)
	moveVersions(client)
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		switch obj := a.(clienttesting.CreateAction).GetObject().(type) {
		case *corev1.Binding:
			bound(obj.Target.Name)
			return true, obj, nil
		case *policyv1.Eviction:
			return true, obj, nil
		}
		return false, nil, nil
	})
	return client
}

// moveVersions makes each update of an object move its resourceVersion, as an API server does and the fake one does
// not.
func moveVersions(client *fake.Clientset) {
	var version atomic.Uint64
	version.Store(firstVersion)
	change := clienttesting.ObjectReaction(client.Tracker())
	react := func(a clienttesting.Action) (bool, runtime.Object, error) {
		if p, ok := a.(clienttesting.PatchAction); ok {
			if err := conflict(client, p); err != nil {
				return true, nil, err
			}
		}
		handled, obj, err := change(a)
		if o, ok := obj.(metav1.Object); ok && err == nil {
			o.SetResourceVersion(fmt.Sprint(version.Add(1)))
			err = client.Tracker().Update(a.GetResource(), obj, a.GetNamespace())
		}
		return handled, obj, err
	}
	client.PrependReactor("update", "*", react)
	client.PrependReactor("patch", "*", react)
}

// conflict returns the error of a patch that is bound to another version of its object, or to another object.
func conflict(client *fake.Clientset, a clienttesting.PatchAction) error {
	obj, err := client.Tracker().Get(a.GetResource(), a.GetNamespace(), a.GetName())
	if err != nil {
		return err
	}
	var bound struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	now, ok := obj.(metav1.Object)
	if err := json.Unmarshal(a.GetPatch(), &bound); err != nil || !ok {
		return err
	}
	version, uid := bound.Metadata.ResourceVersion, bound.Metadata.UID
	if version != "" && version != now.GetResourceVersion() || uid != "" && uid != now.GetUID() {
		return apierrors.NewConflict(a.GetResource().GroupResource(), a.GetName(), errors.New("another version"))
	}
	return nil
}

// firstVersion is above all resourceVersions of the objects of a case.
const firstVersion = 1000

// reportsAfter returns the reports with the status that the pod has in the end.
func (c *extendedCase) reportsAfter(ctx context.Context, client *fake.Clientset, r reports) (reports, error) {
	pod, err := client.CoreV1().Pods(c.pod.Namespace).Get(ctx, c.pod.Name, metav1.GetOptions{})
	if err != nil {
		return reports{}, err
	}
	r.finish(pod)
	return r, nil
}

// upstreamReports runs upstream's scheduler for one attempt, with its own informers, and returns what it leaves.
// prepare may be nil.
func (c *extendedCase) upstreamReports(
	ctx context.Context, given configv1.KubeSchedulerConfiguration, prepare func(*fake.Clientset),
) (reports, error) {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.Logger{}))
	defer cancel()
	scheme.Scheme.Default(&given)
	var internal config.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&given, &internal, nil); err != nil {
		return reports{}, err
	}
	var r reports
	ended := make(chan struct{}, 2)
	client := c.server(func(node string) { r.Node = node })
	if prepare != nil {
		prepare(client)
	}
	recorded := recorder{scheduled: func() { ended <- struct{}{} }, mu: &struct {
		sync.Mutex
		list []report
	}{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	sched, err := upstreamscheduler.New(ctx, client, factory, nil,
		func(name string) toolsevents.EventRecorderLogger {
			named := recorded
			named.controller = name
			return named
		},
		upstreamscheduler.WithProfiles(internal.Profiles...), upstreamscheduler.WithPercentageOfNodesToScore(ptr(int32(100))))
	if err != nil {
		return reports{}, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		return reports{}, err
	}
	sched.NextPod = func(klog.Logger) (*framework.QueuedPodInfo, error) {
		info, err := framework.NewPodInfo(c.pod.DeepCopy())
		return &framework.QueuedPodInfo{PodInfo: info}, err
	}
	failed := sched.FailureHandler
	sched.FailureHandler = func(ctx context.Context, f framework.Framework, p *framework.QueuedPodInfo, s *fwk.Status,
		n *fwk.NominatingInfo, start time.Time) {
		failed(ctx, f, p, s, n, start)
		ended <- struct{}{}
	}
	sched.ScheduleOne(ctx)
	select {
	case <-ended:
	case <-time.After(upstreamPatience):
		return reports{}, errors.New("the attempt does not end")
	}
	recorded.mu.Lock()
	defer recorded.mu.Unlock()
	for _, e := range recorded.mu.list {
		r.addEvent(e, nameOfObject(c.pod))
	}
	return c.reportsAfter(ctx, client, r)
}
