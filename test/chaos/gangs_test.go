//go:build e2e

package chaos

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// mostGangs is how many gangs there are at a time, and largestGang how many members one has at most.
	mostGangs, largestGang = 10, 8
	// zoned is in how many of a hundred gangs all members have to be in one zone.
	zoned = 30
)

// gang is a PodGroup with its pods, all of which have to be placed together.
type gang struct {
	name    string
	members int
	zoned   bool
	// gone: its users have deleted it, perhaps not yet all of it.
	gone bool
}

// changeGangs creates a gang in every other step, and gives up the oldest if there are too many.
func (l *load) changeGangs() {
	if l.rng.IntN(2) > 0 {
		return
	}
	l.gangsCreated++
	l.gangs = append(l.gangs, &gang{
		name: fmt.Sprintf("gang-%03d", l.gangsCreated), members: 2 + l.rng.IntN(largestGang-1),
		zoned: l.rng.IntN(100) < zoned,
	})
	if len(l.gangs) > mostGangs {
		l.gangs[0].gone = true
	}
}

// followGangs does what a controller of gangs does: it creates what is missing of each, also what was lost with a node,
// and deletes what is left of those that are gone.
func (l *load) followGangs(ctx context.Context) error {
	for _, g := range slices.Clone(l.gangs) {
		if !g.gone {
			if err := l.create(ctx, g); err != nil {
				return err
			}
			continue
		}
		if err := l.delete(ctx, g); err != nil {
			return err
		}
		l.gangs = slices.DeleteFunc(l.gangs, func(o *gang) bool { return o == g })
	}
	return nil
}

// create creates what is missing of a gang.
func (l *load) create(ctx context.Context, g *gang) error {
	_, err := l.client.SchedulingV1alpha2().PodGroups(namespace).Create(ctx, g.object(), metav1.CreateOptions{})
	for i := 0; i < g.members && (err == nil || apierrors.IsAlreadyExists(err)); i++ {
		_, err = l.client.CoreV1().Pods(namespace).Create(ctx, g.pod(i), metav1.CreateOptions{})
	}
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// delete deletes what is left of a gang.
func (l *load) delete(ctx context.Context, g *gang) error {
	var err error
	for i := 0; i < g.members && (err == nil || apierrors.IsNotFound(err)); i++ {
		err = l.client.CoreV1().Pods(namespace).Delete(ctx, g.member(i), metav1.DeleteOptions{})
	}
	if err == nil || apierrors.IsNotFound(err) {
		err = l.client.SchedulingV1alpha2().PodGroups(namespace).Delete(ctx, g.name, metav1.DeleteOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (g *gang) member(i int) string { return fmt.Sprintf("%s-%d", g.name, i) }

func (g *gang) object() *schedulingv1alpha2.PodGroup {
	o := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: g.name}}
	o.Spec.SchedulingPolicy.Gang = &schedulingv1alpha2.GangSchedulingPolicy{MinCount: int32(g.members)}
	if g.zoned {
		o.Spec.SchedulingConstraints = &schedulingv1alpha2.PodGroupSchedulingConstraints{
			Topology: []schedulingv1alpha2.TopologyConstraint{{Key: corev1.LabelTopologyZone}},
		}
	}
	return o
}

func (g *gang) pod(i int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: g.member(i), Labels: map[string]string{"app": inGang},
	}}
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &g.name}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "none", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")},
	}}}
	return p
}
