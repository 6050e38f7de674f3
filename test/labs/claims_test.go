//go:build e2e

package labs

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func volumes(l *lab) {
	l.next()
	l.schedulable(3)
	l.eventually(within, "six capacities are published", func(ctx context.Context) (string, error) {
		const classes, nodes = 2, 3
		list, err := l.client.StorageV1().CSIStorageCapacities(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) == classes*nodes {
			return "", err
		}
		return fmt.Sprintf("%d", len(list.Items)), nil
	})
	l.next() // the claims
	l.next() // claims of 5Gi and of 50Gi
	l.runsOn("database", "volumes-b")
	l.pending(named("archive"), 1, "0/3 nodes are available: 3 node(s) did not have enough free storage.")
	l.next() // more disks
	l.runsOn("archive", "volumes-a")

	l.next() // a local volume
	l.runsOn("pinned", "volumes-a")
	l.next() // its node is closed
	l.pending(named("pinned"), 1, "0/3 nodes are available: "+
		"1 node(s) were unschedulable, 2 node(s) didn't match PersistentVolume's node affinity.")
	l.next()
	l.runsOn("pinned", "volumes-a")

	l.next() // two slots for three
	scratch := labelled("app=scratch")
	l.counted("scratch", byNode(l.bound(scratch, 2)), map[string]int{"volumes-few": 2})
	l.pending(scratch, 1, "0/3 nodes are available: "+
		"1 node(s) exceed max volume count, 2 node(s) didn't match Pod's node affinity/selector.")
	l.next()
	l.counted("scratch", byNode(l.bound(scratch, 3)), map[string]int{"volumes-few": 3})

	l.next() // a claim for one
	l.pending(named("second"), 1, "0/3 nodes are available: 3 node(s) unavailable due to PersistentVolumeClaim "+
		"with ReadWriteOncePod access mode already in-use by another pod.")
	l.next()
	l.node("second")

	l.next() // a zone
	l.runsOn("zonal", "volumes-a")
}

// runsOn waits until a pod is bound and checks where.
func (l *lab) runsOn(pod, node string) {
	l.Helper()
	if got := l.node(pod); got != node {
		l.Errorf("%s stands on %s, want %s", pod, got, node)
	}
}

func devices(l *lab) {
	l.next()
	l.schedulable(2)
	l.next() // the devices
	l.devicesWith(4, "published", func(resourcev1.Device) bool { return true })
	l.next() // a large one, or a small one
	l.runsOn("picky", "dra-a")
	l.node("modest")
	l.models(map[string]string{"picky": "gpu/large", "modest": "gpu/small"})
	l.next()
	l.claimsGone()
	l.next() // five for four
	trainers := labelled("app=trainer")
	l.counted("trainer", byNode(l.bound(trainers, 4)), map[string]int{"dra-a": 2, "dra-b": 2})
	l.pending(trainers, 1, "0/2 nodes are available: 2 cannot allocate all claims.")
	l.allocated(4)
	l.next()
	l.counted("trainer", byNode(l.bound(trainers, 5)), map[string]int{"dra-a": 2, "dra-b": 3})
	l.allocated(5)
	l.next()
	l.claimsGone()

	l.next() // one claim, two pods
	l.runsOn("reader", l.node("writer"))
	l.next()
	l.next() // tainted devices
	l.devicesWith(5, "tainted", func(d resourcev1.Device) bool { return len(d.Taints) > 0 })
	l.next()
	l.node("tolerant")
	l.pending(named("healthy"), 1, "0/2 nodes are available: 2 cannot allocate all claims.")
	l.next()
	l.runsOn("healthy", "dra-b")
	l.allocated(2)
}

// claimsGone waits until claims have been deleted with their pods.
func (l *lab) claimsGone() {
	l.Helper()
	l.eventually(within, "claims go with their pods", func(ctx context.Context) (string, error) {
		claims, err := l.client.ResourceV1().ResourceClaims(l.namespaceName()).List(ctx, metav1.ListOptions{})
		if err != nil || len(claims.Items) == 0 {
			return "", err
		}
		return fmt.Sprintf("%d claims", len(claims.Items)), nil
	})
}

// devicesWith waits until the driver has published n devices like this.
func (l *lab) devicesWith(n int, what string, like func(resourcev1.Device) bool) {
	l.Helper()
	l.eventually(within, fmt.Sprint(n, " devices are ", what), func(ctx context.Context) (string, error) {
		slices, err := l.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		found := 0
		for _, s := range slices.Items {
			for _, d := range s.Spec.Devices {
				if like(d) {
					found++
				}
			}
		}
		if found == n {
			return "", nil
		}
		return fmt.Sprint(found, " are"), nil
	})
}

// allocated checks that n claims have a device, each another.
func (l *lab) allocated(n int) map[string]resourcev1.DeviceRequestAllocationResult {
	l.Helper()
	list, err := l.client.ResourceV1().ResourceClaims(l.namespaceName()).List(l.Context(), metav1.ListOptions{})
	l.must(err)
	owners := map[string]string{}
	results := map[string]resourcev1.DeviceRequestAllocationResult{}
	for _, claim := range list.Items {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			device := strings.Join([]string{r.Driver, r.Pool, r.Device}, "/")
			if other, taken := owners[device]; taken {
				l.Errorf("%s is in the claims %s and %s", device, other, claim.Name)
			}
			owners[device], results[claim.Name] = claim.Name, r
		}
	}
	if len(owners) != n {
		l.Errorf("%d devices are in claims, want %d", len(owners), n)
	}
	return results
}

// models checks which of a request's alternatives pods got.
func (l *lab) models(want map[string]string) {
	l.Helper()
	results := l.allocated(len(want))
	for pod, alternative := range want {
		claims := l.pod(pod).Status.ResourceClaimStatuses
		if len(claims) != 1 || claims[0].ResourceClaimName == nil {
			l.Errorf("pod %s has the claims %+v, want one", pod, claims)
			continue
		}
		if got := results[*claims[0].ResourceClaimName].Request; got != alternative {
			l.Errorf("pod %s got %s, want %s", pod, got, alternative)
		}
	}
}

func (l *lab) pod(name string) *corev1.Pod {
	l.Helper()
	pod, err := l.client.CoreV1().Pods(l.namespaceName()).Get(l.Context(), name, metav1.GetOptions{})
	l.must(err)
	return pod
}
