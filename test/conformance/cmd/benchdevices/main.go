// Command benchdevices measures how long the placement of a pod with a claim to one device takes, by kube-scheduler's
// algorithm and by ours, on the same objects and on one processor: the shape of scheduler_perf's
// SchedulingWithResourceClaimTemplate/5000pods_500nodes, which fills a cluster of 500 nodes with 10 devices each,
// half of them taken when the clock starts.
//
// For kube-scheduler at its defaults, the snapshot, SchedulePod, assume and Reserve are timed; for ours, Evaluate
// over all nodes and DevicePicks. The update of the claim and its delivery to both are not timed.
//
// Run it with `make bench-devices`. Start reading at race.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func main() {
	runtime.GOMAXPROCS(1)
	var l load
	flag.IntVar(&l.nodes, "nodes", 500, "how many nodes there are")
	flag.IntVar(&l.devices, "devices", 10, "how many devices each node has; half of them are taken before")
	flag.IntVar(&l.pods, "pods", 2500, "how many pods are placed")
	flag.Parse()
	if err := compare(context.Background(), l); err != nil {
		fmt.Fprintln(os.Stderr, "benchdevices:", err)
		os.Exit(1)
	}
}

const (
	driver    = "gpu.example.com"
	class     = "gpu"
	namespace = "default"
)

// load is the size of the cluster, and how many pods are placed.
type load struct{ nodes, devices, pods int }

// contender places pods one at a time.
type contender interface {
	// arrive delivers a pod and its claim, outside the clock.
	arrive(ctx context.Context, pod *corev1.Pod, claim *resourcev1.ResourceClaim) error
	// decide chooses a node and devices.
	decide(ctx context.Context) error
	// settle writes the decision into the claim, outside the clock.
	settle(ctx context.Context) error
}

func compare(ctx context.Context, l load) error {
	fmt.Printf("%d nodes with %d devices, %d of %d taken; %d pods\n\n", l.nodes, l.devices,
		l.nodes*(l.devices/2), l.nodes*l.devices, l.pods)
	fmt.Println("| who | decisions/s | p50 | p99 |\n|---|---|---|---|")
	rates := map[string]float64{}
	for _, c := range []struct {
		name  string
		start func(context.Context, load) (contender, error)
	}{{"kube-scheduler's algorithm", newUpstream}, {"berth's algorithm", newOurs}} {
		running, stop := context.WithCancel(ctx)
		contender, err := c.start(running, l)
		if err != nil {
			stop()
			return fmt.Errorf("%s: %w", c.name, err)
		}
		rates[c.name], err = race(running, c.name, contender, l)
		stop()
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	fmt.Printf("\n%.1f times kube-scheduler's\n", rates["berth's algorithm"]/rates["kube-scheduler's algorithm"])
	return nil
}

// race places all pods and prints a line.
func race(ctx context.Context, name string, c contender, l load) (rate float64, err error) {
	var took []time.Duration
	var sum time.Duration
	runtime.GC()
	for i := range l.pods {
		pod, claim := l.pod(i)
		if err := c.arrive(ctx, pod, claim); err != nil {
			return 0, err
		}
		began := time.Now()
		if err := c.decide(ctx); err != nil {
			return 0, fmt.Errorf("pod %d: %w", i, err)
		}
		took = append(took, time.Since(began))
		sum += took[i]
		if err := c.settle(ctx); err != nil {
			return 0, fmt.Errorf("pod %d: %w", i, err)
		}
	}
	slices.Sort(took)
	rate = float64(len(took)) / sum.Seconds()
	fmt.Printf("| %s | %.0f | %s | %s |\n", name, rate, took[len(took)/2].Round(time.Microsecond),
		took[len(took)*99/100].Round(time.Microsecond))
	return rate, nil
}

func nodeName(i int) string { return fmt.Sprintf("node-%04d", i) }

func (l load) node(i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: nodeName(i), UID: types.UID(nodeName(i)), Labels: map[string]string{corev1.LabelHostname: nodeName(i)},
	}}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("32Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}
	n.Status.Capacity = n.Status.Allocatable
	return n
}

func (l load) slice(i int) *resourcev1.ResourceSlice {
	name := nodeName(i)
	s := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("slice-" + name)},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1},
		},
	}
	for d := range l.devices {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", d)})
	}
	return s
}

func deviceClass() *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: class, UID: class},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{
			CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`},
		}}},
	}
}

func claimOf(name string) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			},
		}}}},
	}
}

// taken are the claims that have a device when the clock starts.
func (l load) taken() (claims []*resourcev1.ResourceClaim) {
	for i := range l.nodes {
		for d := range l.devices / 2 {
			c := claimOf(fmt.Sprintf("taken-%d-%d", i, d))
			c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
				Results: []resourcev1.DeviceRequestAllocationResult{
					{Request: "gpu", Driver: driver, Pool: nodeName(i), Device: fmt.Sprintf("gpu-%d", d)},
				},
			}}
			c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{
				{Resource: "pods", Name: c.Name, UID: c.UID + "-pod"},
			}
			claims = append(claims, c)
		}
	}
	return claims
}

func (l load) pod(i int) (*corev1.Pod, *resourcev1.ResourceClaim) {
	name := fmt.Sprintf("pod-%05d", i)
	claim := claimOf(name)
	controller := true
	claim.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID(name), Controller: &controller},
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "app"}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim.Name}},
		},
	}, claim
}
