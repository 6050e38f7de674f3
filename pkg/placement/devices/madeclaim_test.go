package devices

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// wanting returns a container that requests this many GPUs, and memory, which sorts after them.
func wanting(name string, gpus int64, sidecar bool) corev1.Container {
	c := corev1.Container{Name: name}
	c.Resources.Requests = corev1.ResourceList{"memory": resource.MustParse("1Mi")}
	if gpus > 0 {
		c.Resources.Requests["example.com/gpu"] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	if sidecar {
		always := corev1.ContainerRestartPolicyAlways
		c.RestartPolicy = &always
	}
	return c
}

// The expected values follow upstream's TestCreateRequestsAndMappings (extendeddynamicresources_test.go).
func TestContainersShareRequestsForDevices(t *testing.T) {
	for name, test := range map[string]struct {
		init, run []corev1.Container
		requests  string
		mappings  string
	}{
		"one container": {nil, []corev1.Container{wanting("a", 2, false)}, "0:2", "a=0"},
		"containers side by side": {
			nil, []corev1.Container{wanting("a", 2, false), wanting("b", 0, false), wanting("c", 1, false)},
			"0:2 2:1", "a=0 c=2"},
		"a start that needs less than what follows": {
			[]corev1.Container{wanting("i", 1, false)}, []corev1.Container{wanting("a", 2, false)}, "1:2", "a=1 i=1"},
		"a start that needs more": {
			[]corev1.Container{wanting("i", 5, false)}, []corev1.Container{wanting("a", 2, false)}, "0:3 1:2", "a=1 i=1 i=0"},
		"starts that need more, one after the other": {
			[]corev1.Container{wanting("i", 3, false), wanting("j", 6, false)}, []corev1.Container{wanting("a", 2, false)},
			"1:4 2:2", "a=2 i=2 i=1 j=2 j=1"},
		"a sidecar before a start is not its to use": {
			[]corev1.Container{wanting("s", 1, true), wanting("i", 1, false)}, []corev1.Container{wanting("a", 0, false)},
			"0:1 1:1", "s=0 i=1"},
		"a sidecar after a start is": {
			[]corev1.Container{wanting("i", 1, false), wanting("s", 1, true)}, []corev1.Container{wanting("a", 0, false)},
			"1:1", "s=1 i=1"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := state.NewPod(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"},
				Spec:       corev1.PodSpec{InitContainers: test.init, Containers: test.run},
			})
			class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
			made := makeClaim(pod, []Backed{{"example.com/gpu", class}})
			var requests, mappings []string
			number := func(request string) string {
				number, ok := strings.CutPrefix(strings.TrimSuffix(request, "-request-0"), "container-")
				if !ok {
					t.Errorf("request %q", request)
				}
				return number
			}
			for _, r := range made.Claim.Spec.Devices.Requests {
				requests = append(requests, fmt.Sprintf("%s:%d", number(r.Name), r.Exactly.Count))
				if r.Exactly.DeviceClassName != "gpu" {
					t.Errorf("request of class %q", r.Exactly.DeviceClassName)
				}
			}
			for _, m := range made.Mappings {
				mappings = append(mappings, m.ContainerName+"="+number(m.RequestName))
			}
			if got := strings.Join(requests, " "); got != test.requests {
				t.Errorf("requests %s, want %s", got, test.requests)
			}
			if got := strings.Join(mappings, " "); got != test.mappings {
				t.Errorf("mappings %s, want %s", got, test.mappings)
			}
			if !IsMadeFor(made.Claim, "u") || IsMadeFor(made.Claim, "v") {
				t.Errorf("the claim is for %+v", made.Claim.OwnerReferences)
			}
		})
	}
}

// A resource that no devices back has to be listed by the node, even with an amount of zero: whether there is
// enough is decided by NodeResourcesFit, which may be configured to ignore the resource.
func TestResourcesNextToDevicesAreListed(t *testing.T) {
	pod := state.NewPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{wanting("a", 1, false)}},
	})
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	wish := &extendedRequest{
		pod: pod, resources: []Backed{{"example.com/gpu", class}}, unbacked: []string{"example.com/fpga"},
		claims: map[string]*MadeClaim{},
	}
	for listed, want := range map[string]string{"": "cannot fit resource", "0": "", "3": ""} {
		obj := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}
		if listed != "" {
			obj.Status.Allocatable = corev1.ResourceList{"example.com/fpga": resource.MustParse(listed)}
		}
		claim, why := wish.claimOn(state.NewNode(obj))
		if why != want || (claim == nil) != (want != "") {
			t.Errorf("listed %q: claim %v, %q, want %q", listed, claim, why, want)
		}
	}
}

func TestNameOfAMadeClaim(t *testing.T) {
	for _, pod := range []string{"p", "web-0.x", strings.Repeat("a.", 126) + "a", strings.Repeat("a-", 126) + "a"} {
		name := MadeClaimName(pod, "u")
		if why := validation.IsDNS1123Subdomain(name); len(why) > 0 {
			t.Errorf("%q: %v", name, why)
		}
		if name != MadeClaimName(pod, "u") || name == MadeClaimName(pod, "v") {
			t.Errorf("%q is not of the pod alone", name)
		}
	}
}

// classes holds device classes by name.
type classes struct {
	rule.NoObjects
	list []*state.Object
}

func (c classes) ObjectByName(_ events.Kind, _, name string) (*state.Object, bool) {
	i := slices.IndexFunc(c.list, func(o *state.Object) bool { return o.Name == name })
	if i < 0 {
		return nil, false
	}
	return c.list[i], true
}

func (c classes) Objects(events.Kind) iter.Seq[*state.Object] { return slices.Values(c.list) }

// If several classes name a resource, the youngest is used, then the first by name.
func TestClassOfAResource(t *testing.T) {
	var all classes
	class := func(name, resource string, at int64) {
		c := &resourcev1.DeviceClass{ObjectMeta: objectMeta(name)}
		c.CreationTimestamp = metav1.Unix(at, 0)
		c.Spec.ExtendedResourceName = &resource
		all.list = append(all.list, &state.Object{Name: name, API: c})
	}
	class("old", "example.com/gpu", 1)
	class("young-b", "example.com/gpu", 2)
	class("young-a", "example.com/gpu", 2)
	class("other", "example.com/nic", 3)
	for resource, want := range map[string]string{
		"example.com/gpu": "young-a", "example.com/nic": "other", "example.com/none": "",
		resourcev1.ResourceDeviceClassPrefix + "old": "old", resourcev1.ResourceDeviceClassPrefix + "none": "",
	} {
		got := ""
		if c := ClassFor(resource, all); c != nil {
			got = c.Name
		}
		if got != want {
			t.Errorf("%s is of class %q, want %q", resource, got, want)
		}
	}
}
