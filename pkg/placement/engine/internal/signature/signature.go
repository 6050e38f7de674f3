package signature

import (
	"encoding/binary"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/placement/volumes"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Signature writes everything that rules read from a pod in addition to its Kind (namespace, labels, pod
// affinity), so that pods with equal bytes and the same Kind get the same Compiled from every plugin. Values that
// only identify a pod (its name, the name of a token volume) are left out. Each part is preceded by its length
// and each list by its number of entries, so that different parts never give the same bytes.
//
// The zero value is ready for use. It reuses its buffer, so that a signature allocates nothing; it is not safe
// for concurrent use.
type Signature struct {
	b     []byte
	names []string // scratch for sorting
}

// Of returns the signature, which is valid until the next call. wide is the length of its prefix that the rules
// beyond one node read: pods with equal prefixes are the same for those rules, whatever else they request. An
// error means that a part cannot be marshaled.
func (s *Signature) Of(pod *state.Pod) (shape []byte, wide int, err error) {
	s.b = s.b[:0]
	spec := &pod.Template.Spec
	// The prefix: default spreading reads the owner; spread constraints read the node selector, tolerations and
	// node affinity to exclude nodes.
	s.owner(pod.Template)
	s.strings(spec.NodeSelector)
	s.tolerations(spec.Tolerations)
	if err := s.rare(spec); err != nil {
		return nil, 0, err
	}
	wide = len(s.b)
	// The rest: NodeName, gates, resources (overhead, containers, pod-level), images and ports, volumes and
	// claims to devices, pod groups, and what declared features are inferred from (host network and users,
	// restart rules).
	s.text(pod.NodeName)
	s.gates(spec.SchedulingGates)
	s.list(spec.Overhead)
	s.containers(spec.InitContainers)
	s.containers(spec.Containers)
	if err := s.volumes(pod); err != nil {
		return nil, 0, err
	}
	s.number(len(spec.ResourceClaims))
	s.flag(spec.SchedulingGroup != nil)
	s.flag(spec.HostNetwork)
	s.flag(spec.HostUsers != nil && !*spec.HostUsers)
	s.flag(spec.Resources != nil)
	if spec.Resources != nil {
		s.requirements(spec.Resources)
	}
	err = s.resized(pod)
	return s.b, wide, err
}

// text writes a string with its length.
func (s *Signature) text(v string) { s.b = rule.AppendPart(s.b, v) }

// number writes a count.
func (s *Signature) number(n int) { s.b = binary.AppendUvarint(s.b, uint64(n)) }

// flag writes a byte, 1 or 0.
func (s *Signature) flag(on bool) {
	if on {
		s.b = append(s.b, 1)
	} else {
		s.b = append(s.b, 0)
	}
}

// gates writes the names of scheduling gates: their order is that of the message about them.
func (s *Signature) gates(gates []corev1.PodSchedulingGate) {
	s.number(len(gates))
	for i := range gates {
		s.text(gates[i].Name)
	}
}

// owner writes the controller of the pod. It matters for default spreading.
func (s *Signature) owner(obj *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(obj)
	s.flag(owner != nil)
	if owner != nil {
		s.text(owner.APIVersion)
		s.text(owner.Kind)
		s.text(owner.Name)
	}
}

// strings writes a map in the order of its keys.
func (s *Signature) strings(m map[string]string) {
	s.names = s.names[:0]
	for name := range m {
		s.names = append(s.names, name)
	}
	slices.Sort(s.names)
	s.number(len(s.names))
	for _, name := range s.names {
		s.text(name)
		s.text(m[name])
	}
}

// tolerations writes the tolerations in their order. Those of another order are equal to every rule, but few pods
// differ in nothing else. TolerationSeconds is left out: it matters after placement only.
func (s *Signature) tolerations(list []corev1.Toleration) {
	s.number(len(list))
	for i := range list {
		t := &list[i]
		s.text(t.Key)
		s.text(string(t.Operator))
		s.text(t.Value)
		s.text(string(t.Effect))
	}
}

// list writes amounts of resources in the order of their names.
func (s *Signature) list(list corev1.ResourceList) {
	s.names = s.names[:0]
	for name := range list {
		s.names = append(s.names, string(name))
	}
	slices.Sort(s.names)
	s.number(len(s.names))
	for _, name := range s.names {
		s.text(name)
		s.quantity(list[corev1.ResourceName(name)])
	}
}

// quantity writes the value in units or, where that is not exact, in thousandths or as text.
func (s *Signature) quantity(q resource.Quantity) {
	if v, exact := q.AsInt64(); exact {
		s.b = binary.AppendVarint(append(s.b, 0), v)
		return
	}
	if m := q.MilliValue(); resource.NewMilliQuantity(m, q.Format).Cmp(q) == 0 {
		s.b = binary.AppendVarint(append(s.b, 1), m)
		return
	}
	s.b = append(s.b, 2)
	s.text(q.String())
}

func (s *Signature) requirements(r *corev1.ResourceRequirements) {
	s.list(r.Requests)
	s.list(r.Limits)
}

// containers writes what resources, image locality, host ports and declared features read of containers. Names,
// commands and environment are left out.
func (s *Signature) containers(list []corev1.Container) {
	s.number(len(list))
	for i := range list {
		c := &list[i]
		s.text(c.Image)
		s.requirements(&c.Resources)
		s.flag(c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways)
		s.number(len(c.RestartPolicyRules))
		for j := range c.RestartPolicyRules {
			s.text(string(c.RestartPolicyRules[j].Action))
		}
		s.number(len(c.Ports))
		for j := range c.Ports {
			p := &c.Ports[j]
			s.number(int(p.HostPort))
			s.text(p.HostIP)
			s.text(string(p.Protocol))
		}
	}
}

// volumes writes only claims, disks and images: other volumes matter to no rule. A claim that is created for the
// pod has a name of its own, so that such a pod shares its signature with no other.
func (s *Signature) volumes(pod *state.Pod) error {
	uses := volumes.ClaimsOf(pod)
	s.number(len(uses))
	for _, use := range uses {
		s.flag(use.Ephemeral)
		s.text(use.Name)
		if use.Ephemeral {
			s.text(pod.UID)
		}
	}
	for i := range pod.Template.Spec.Volumes {
		v := &pod.Template.Spec.Volumes[i]
		switch {
		case v.Image != nil:
			s.b = append(s.b, 1)
			s.text(v.Image.Reference)
		case volumes.IsDisk(v):
			data, err := v.VolumeSource.Marshal()
			if err != nil {
				return err
			}
			s.b = append(s.b, 2)
			s.text(string(data))
		}
	}
	// The end of the list: entries begin with 1 or 2.
	s.b = append(s.b, 0)
	return nil
}

// rare writes the fields that few pods have, as protocol buffers: node affinity and spread constraints. They have
// too many parts to be written one by one. Marshaling is deterministic: the generated code sorts maps.
func (s *Signature) rare(spec *corev1.PodSpec) error {
	// Pod affinity is part of the Kind.
	prefers := spec.Affinity != nil && spec.Affinity.NodeAffinity != nil
	s.flag(prefers)
	if prefers {
		data, err := spec.Affinity.NodeAffinity.Marshal()
		if err != nil {
			return err
		}
		s.text(string(data))
	}
	s.number(len(spec.TopologySpreadConstraints))
	for i := range spec.TopologySpreadConstraints {
		data, err := spec.TopologySpreadConstraints[i].Marshal()
		if err != nil {
			return err
		}
		s.text(string(data))
	}
	return nil
}

// resized writes the status of a pod that has been resized in place: balance counts the resources allocated to
// its containers, by name. Waiting pods have none, so that it usually writes nothing.
func (s *Signature) resized(pod *state.Pod) error {
	status, spec := pod.Status(), &pod.Template.Spec
	plain := status.Resources == nil && len(status.AllocatedResources) == 0
	if plain && !given(status.ContainerStatuses) && !given(status.InitContainerStatuses) {
		return nil
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			s.text(list[i].Name)
		}
	}
	data, err := status.Marshal()
	s.text(string(data))
	return err
}

// given reports whether any container status shows resources, which is so after a resize in place.
func given(list []corev1.ContainerStatus) bool {
	return slices.ContainsFunc(list, func(c corev1.ContainerStatus) bool {
		return c.Resources != nil || len(c.AllocatedResources) > 0
	})
}
