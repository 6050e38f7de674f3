//go:build e2e

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// namespace of all pods.
	namespace = "chaos"
	// every so often, some pods are created; beyond keep, as many of the bound ones are deleted.
	every = 1500 * time.Millisecond
	some  = 12
	keep  = 350
	// apartPods repel each other by hostname; evenPods are spread over zones with a skew of 1.
	apartPods, evenPods = 1, 3
	// inGang is the value of the label app of the members of gangs.
	inGang = "gang"
)

// load is pods that come and go.
type load struct {
	client  kubernetes.Interface
	rng     *rand.Rand
	created int
	deleted int
	// cordoned is the node that was taken out last, to be given back at the next step.
	cordoned string
	cordons  int
	// gangs are those that exist, or have not been deleted completely; gangsCreated counts all that there have been.
	gangs        []*gang
	gangsCreated int
}

func newLoad(ctx context.Context, client kubernetes.Interface, seed uint64) (*load, error) {
	err := harness.CreateNamespace(ctx, client, harness.Namespace(namespace))
	return &load{client: client, rng: rand.New(rand.NewPCG(seed, 2))}, err
}

// run creates and deletes pods until loading ends; it completes within ctx what it has begun.
func (l *load) run(loading, ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-loading.Done():
			return nil
		case <-tick.C:
		}
		if err := l.step(ctx); err != nil && !transient(err) {
			return err
		}
	}
}

// transient reports whether an error is the API server's pause, which the plan has in it.
func transient(err error) bool {
	return !errors.Is(err, context.Canceled) && (apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || !isStatus(err))
}

func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

func (l *load) step(ctx context.Context) error {
	pods := make([]*corev1.Pod, 0, some)
	for i := range some {
		l.created++
		pods = append(pods, l.pod(i))
	}
	if err := harness.CreatePods(ctx, l.client, pods); err != nil {
		return err
	}
	l.changeGangs()
	if err := l.followGangs(ctx); err != nil {
		return err
	}
	// While the pods are under way: reservations on a cordoned node have to be taken back.
	if err := l.cordonAnother(ctx); err != nil {
		return err
	}
	list, err := l.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	surplus := len(list.Items) - keep
	for _, i := range l.rng.Perm(len(list.Items)) {
		pod := list.Items[i]
		// Of the unbound pods, one in eight is deleted. Gangs are deleted as a whole.
		waits := pod.Spec.NodeName == "" && l.rng.IntN(8) > 0
		if surplus <= 0 || pod.DeletionTimestamp != nil || waits || pod.Labels["app"] == inGang {
			continue
		}
		err := l.client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		surplus--
		l.deleted++
	}
	return nil
}

// cordonAnother cordons a node, which probably holds reservations, and uncordons the previous one.
func (l *load) cordonAnother(ctx context.Context) error {
	if l.cordoned != "" {
		if err := l.cordon(ctx, l.cordoned, false); err != nil {
			return err
		}
	}
	l.cordoned = nodeName(l.rng.IntN(nodeCount))
	l.cordons++
	return l.cordon(ctx, l.cordoned, true)
}

func (l *load) cordon(ctx context.Context, node string, out bool) error {
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, out)
	_, err := l.client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil // it is about to register again
	}
	return err
}

func (l *load) pod(i int) *corev1.Pod {
	app := "plain"
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("pod-%05d", l.created)}}
	cpu := *resource.NewMilliQuantity(int64(100+l.rng.IntN(5)*200), resource.DecimalSI)
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "none", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: cpu},
	}}}
	switch {
	case i < apartPods:
		app = "apart"
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: selector(app),
			}},
		}}
	case i < apartPods+evenPods:
		app = "even"
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: selector(app),
		}}
	}
	p.Labels = map[string]string{"app": app}
	return p
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// unbound lists the pods that have no node. Gangs that are incomplete would wait for ever, and are completed first.
func (l *load) unbound(ctx context.Context) (string, error) {
	if err := l.followGangs(ctx); err != nil {
		return err.Error(), nil
	}
	list, err := l.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error(), nil
	}
	missing, example := 0, ""
	for _, p := range list.Items {
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
			continue
		}
		missing++
		example = p.Name
		for _, c := range p.Status.Conditions {
			example += fmt.Sprintf(" (%s=%s: %s)", c.Type, c.Status, c.Message)
		}
	}
	if missing == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d of %d pods have no node: %s", missing, len(list.Items), example), nil
}
