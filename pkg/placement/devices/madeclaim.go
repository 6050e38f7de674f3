package devices

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/state"
)

// madeInfix separates the name of a pod from the suffix that makes the name of its claim unique, as upstream does.
const madeInfix = "-extended-resources-"

// MadeClaimName returns the name of the claim that is created for the resources of a pod. The name is
// deterministic, so that a second attempt to create the claim finds the first one. (Upstream lets the API server
// generate the name.)
func MadeClaimName(podName, podUID string) string {
	suffix := fmt.Sprintf("%s%08x", madeInfix, uint32(xxhash.Sum64String(podUID)))
	if longest := validation.DNS1123SubdomainMaxLength - len(suffix); len(podName) > longest {
		podName = strings.TrimRight(podName[:longest], "-.")
	}
	return podName + suffix
}

// IsMadeFor reports whether a claim was created for the resources of a pod. Source: extendeddynamicresources.go
// findExtendedResourceClaim.
func IsMadeFor(claim *resourcev1.ResourceClaim, podUID string) bool {
	owner := metav1.GetControllerOfNoCopy(claim)
	return claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true" &&
		owner != nil && string(owner.UID) == podUID
}

// NewMadeClaim returns a claim with this spec for a pod, as it is created. The pod owns it, so that the claim is
// deleted together with the pod.
func NewMadeClaim(namespace, podName, podUID string, spec resourcev1.ResourceClaimSpec) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: MadeClaimName(podName, podUID),
			Annotations: map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: podName, UID: types.UID(podUID), Controller: ptr.To(true),
			}},
		},
		Spec: spec,
	}
}

// makeClaim requests devices in place of resources. Containers that do not run at the same time share requests:
// an init container that ends uses the devices of the containers after it. What such containers need beyond that
// is requested only once, for the one that needs most. Source: extendeddynamicresources.go
// createRequestsAndMappings.
//
// Example: two init containers that request 3 and 1 GPUs and a main container that requests 2. The claim requests
// 2 for the main container and 1 more for the first init container, which uses all three; the second uses one of
// the two.
func makeClaim(pod *state.Pod, resources []Backed) *MadeClaim {
	spec := &pod.Template.Spec
	m := claimMaker{containers: slices.Concat(spec.InitContainers, spec.Containers), starting: len(spec.InitContainers)}
	for _, r := range resources {
		m.add(r)
	}
	slices.SortFunc(m.requests, func(a, b resourcev1.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	return &MadeClaim{
		Claim: NewMadeClaim(pod.Namespace, pod.Name, pod.UID,
			resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: m.requests}}),
		Mappings: m.mappings,
	}
}

// claimMaker collects requests. The first containers, starting of them, are init containers.
type claimMaker struct {
	containers []corev1.Container
	starting   int
	requests   []resourcev1.DeviceRequest
	mappings   []corev1.ContainerExtendedResourceRequest
}

// ends reports whether a container ends before the containers after it start.
func (m *claimMaker) ends(i int) bool {
	policy := m.containers[i].RestartPolicy
	return i < m.starting && (policy == nil || *policy != corev1.ContainerRestartPolicyAlways)
}

// add requests one resource, for all containers.
func (m *claimMaker) add(r Backed) {
	lasting := make([]*resourcev1.DeviceRequest, len(m.containers))
	for i := range m.containers {
		if m.ends(i) {
			continue
		}
		if amount := m.amount(i, r.Name); amount > 0 {
			lasting[i] = m.request(i, r, amount)
			m.mapTo(i, r.Name, lasting[i].Name)
		}
	}
	m.addEnding(r, lasting)
	for _, request := range lasting {
		if request != nil {
			m.requests = append(m.requests, *request)
		}
	}
}

// addEnding adds the requests of the init containers that end. lasting holds, by container, the requests of
// containers that run with the ones after them, which an earlier init container can use.
func (m *claimMaker) addEnding(r Backed, lasting []*resourcev1.DeviceRequest) {
	var most *resourcev1.DeviceRequest
	var own []int // the mappings to requests of only such containers
	for i := range m.containers {
		missing := m.amount(i, r.Name)
		if !m.ends(i) || missing == 0 {
			continue
		}
		// An init container that ends can use the devices of the containers that start after it.
		for _, later := range lasting[i:] {
			if later != nil && missing > 0 {
				m.mapTo(i, r.Name, later.Name)
				missing -= later.Exactly.Count
			}
		}
		if missing <= 0 {
			continue
		}
		request := m.request(i, r, missing)
		if most == nil || most.Exactly.Count < missing {
			most = request
		}
		own = append(own, len(m.mappings))
		m.mapTo(i, r.Name, request.Name)
	}
	if most == nil {
		return
	}
	// Init containers that end run one after the other: one request serves all of them.
	for _, at := range own {
		m.mappings[at].RequestName = most.Name
	}
	m.requests = append(m.requests, *most)
}

// amount returns how much of a resource a container requests.
func (m *claimMaker) amount(i int, resource string) int64 {
	q, ok := m.containers[i].Resources.Requests[corev1.ResourceName(resource)]
	if !ok {
		return 0
	}
	amount, _ := q.AsInt64()
	return amount
}

// request returns a request that is named after the container and the position of the resource among its
// resources, so that equal pods get equal claims.
func (m *claimMaker) request(i int, r Backed, amount int64) *resourcev1.DeviceRequest {
	place := slices.Index(slices.Sorted(maps.Keys(m.containers[i].Resources.Requests)), corev1.ResourceName(r.Name))
	return &resourcev1.DeviceRequest{
		Name: fmt.Sprintf("container-%d-request-%d", i, place),
		Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: r.class.Name, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: amount,
		},
	}
}

// mapTo records that a container gets a resource from a request.
func (m *claimMaker) mapTo(i int, resource, request string) {
	m.mappings = append(m.mappings, corev1.ContainerExtendedResourceRequest{
		ContainerName: m.containers[i].Name, ResourceName: resource, RequestName: request,
	})
}

// MadeClaim is a claim that is created for those resources of a pod that devices provide on its node.
type MadeClaim struct {
	Claim *resourcev1.ResourceClaim
	// Mappings define which container gets which of the claim's requests for which resource.
	Mappings []corev1.ContainerExtendedResourceRequest
}
