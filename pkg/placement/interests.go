package placement

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/pkg/state"
)

// joined concatenates texts so that different lists give different results.
func joined(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(strconv.Itoa(len(p)))
		b.WriteByte(' ')
		b.WriteString(p)
	}
	return b.String()
}

// pairs returns the entries of a map, sorted.
func pairs(m map[string]string) []string {
	list := make([]string, 0, len(m))
	for k, v := range m {
		list = append(list, joined(k, v))
	}
	slices.Sort(list)
	return list
}

// marshaler is implemented by the API types.
type marshaler interface{ Marshal() ([]byte, error) }

// bytesOf returns a value as protobuf. A value that cannot be marshaled equals no other: the result then contains
// the pod's UID.
func bytesOf(pod *state.Pod, m marshaler) string {
	data, err := m.Marshal()
	if err != nil {
		return "of " + pod.UID
	}
	return string(data)
}

// wholePod returns the class of pods that are alike in everything that rules may read. Names of volumes are
// ignored: that of the token volume is random.
func wholePod(pod *state.Pod) string {
	spec := pod.Template.Spec
	spec.Volumes = slices.Clone(spec.Volumes)
	own := ""
	for i := range spec.Volumes {
		if spec.Volumes[i].Ephemeral != nil {
			own = pod.UID // the name of its claim contains the pod's name
		}
		spec.Volumes[i].Name = ""
	}
	spec.Hostname = ""
	if hasDeviceClaims(&spec) {
		own = pod.UID // the pod's status names the claims
	}
	return joined(append(pairs(pod.Template.Labels), pod.Namespace, own, owner(pod), bytesOf(pod, &spec))...)
}

// owner identifies the pod's controller, which default spreading uses.
func owner(pod *state.Pod) string {
	o := metav1.GetControllerOfNoCopy(pod.Template)
	if o == nil {
		return ""
	}
	return joined(o.APIVersion, o.Kind, o.Name)
}

func (nodeUnschedulable) interest(*state.Pod) Interest { return Interest{Nodes: everything} }

func (nodeName) interest(*state.Pod) Interest { return Interest{Nodes: everything} }

func (nodeDeclaredFeatures) interest(*state.Pod) Interest { return Interest{Nodes: everything} }

func (taintToleration) interest(pod *state.Pod) Interest {
	tolerations := pod.Template.Spec.Tolerations
	list := make([]string, len(tolerations))
	for i := range tolerations {
		list[i] = bytesOf(pod, &tolerations[i])
	}
	return Interest{Class: joined(list...), Nodes: everything}
}

func (nodePorts) interest(pod *state.Pod) Interest {
	list := make([]string, len(pod.Ports))
	for i, p := range pod.Ports {
		list[i] = joined(p.IP, p.Protocol, strconv.Itoa(int(p.Port)))
	}
	return Interest{Class: joined(list...), Pods: everything, Nodes: everything}
}

func (nodeResourcesFit) interest(pod *state.Pod) Interest {
	asks := amounts(incomingRequest(pod.Template))
	counts := amounts(pod.Requests)
	return Interest{Class: joined(joined(asks...), joined(counts...)), Pods: everything, Nodes: everything}
}

// amounts returns the resources that are not zero, sorted.
func amounts(r state.Resources) []string {
	var list []string
	for name, v := range r.Map() {
		if v != 0 {
			list = append(list, joined(name, strconv.FormatInt(v, 10)))
		}
	}
	slices.Sort(list)
	return list
}

// maxTopics bounds the number of topics that one pod is indexed by; with more, every change counts.
const maxTopics = 32

func (nodeAffinity) interest(pod *state.Pod) Interest {
	spec := &pod.Template.Spec
	i := Interest{Nodes: everything}
	required := requiredTerms(spec)
	text := ""
	if required != nil {
		text = bytesOf(pod, required)
	}
	i.Class = joined(append(pairs(spec.NodeSelector), text)...)
	if topics, ok := necessary(spec, required); ok && len(topics) <= maxTopics {
		i.Nodes = Reach{Topics: topics}
	}
	return i
}

// necessary returns topics of which a node must have at least one to match; false if there is no such list.
func necessary(spec *corev1.PodSpec, required *corev1.NodeSelector) ([]string, bool) {
	if len(spec.NodeSelector) > 0 {
		key := tellingKey(spec.NodeSelector)
		return []string{topicLabel + key + "=" + spec.NodeSelector[key]}, true
	}
	if required == nil {
		return nil, false
	}
	if _, err := nodeaffinity.NewNodeSelector(required); err != nil {
		return nil, false
	}
	var list []string
	for i := range required.NodeSelectorTerms {
		topics, ok := necessaryForTerm(&required.NodeSelectorTerms[i])
		if !ok {
			return nil, false
		}
		list = append(list, topics...)
	}
	return list, true
}

// tellingKey selects one key of a selector, all of whose keys must match: the hostname, which is the most
// selective, or else the last.
func tellingKey(selector map[string]string) string {
	if _, ok := selector[corev1.LabelHostname]; ok {
		return corev1.LabelHostname
	}
	return slices.Max(slices.Collect(maps.Keys(selector)))
}

// necessaryForTerm is necessary for one of several terms. A term without requirements matches nothing.
func necessaryForTerm(term *corev1.NodeSelectorTerm) ([]string, bool) {
	if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
		return nil, true
	}
	one := func(of []corev1.NodeSelectorRequirement, topic func(key, value string) string) ([]string, bool) {
		for _, r := range of {
			if r.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			var list []string
			for _, v := range r.Values {
				list = append(list, topic(r.Key, v))
			}
			return list, true
		}
		return nil, false
	}
	if list, ok := one(term.MatchFields, func(_, v string) string { return topicName + v }); ok {
		return list, true
	}
	return one(term.MatchExpressions, func(k, v string) string { return topicLabel + k + "=" + v })
}

func (topologySpread) interest(pod *state.Pod) Interest {
	parts := append(pairs(pod.Template.Labels), pod.Namespace, owner(pod))
	for i := range pod.Template.Spec.TopologySpreadConstraints {
		parts = append(parts, bytesOf(pod, &pod.Template.Spec.TopologySpreadConstraints[i]))
	}
	return Interest{
		Class: joined(parts...), Pods: Reach{Topics: []string{topicIn + pod.Namespace}}, Nodes: everything,
	}
}

func (podAffinity) interest(pod *state.Pod) Interest {
	parts := append(pairs(pod.Template.Labels), pod.Namespace)
	if a := pod.Template.Spec.Affinity; a != nil && a.PodAffinity != nil {
		parts = append(parts, "near", bytesOf(pod, a.PodAffinity))
	}
	if a := pod.Template.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		parts = append(parts, "away", bytesOf(pod, a.PodAntiAffinity))
	}
	i := Interest{Class: joined(parts...), Pods: everything, Nodes: everything}
	if unparsed(pod) {
		return i
	}
	i.Pods, i.Nodes = reachOfTerms(pod.Terms)
	return i
}

// reachOfTerms returns, for pods, those in the namespaces that the required terms refer to and deleted pods that
// may have repelled the pod; for nodes, those that are new or change their domain.
func reachOfTerms(terms *state.PodTerms) (pods, nodes Reach) {
	pods.Topics, nodes.Topics = []string{topicRepelled}, []string{topicNewNode}
	if terms == nil {
		return pods, nodes
	}
	for _, t := range slices.Concat(terms.RequiredAffinity, terms.RequiredAntiAffinity) {
		if _, selects := t.NamespaceSelector.Requirements(); selects {
			pods = everything
		}
		for _, ns := range t.Namespaces {
			pods.Topics = append(pods.Topics, topicIn+ns)
		}
		nodes.Topics = append(nodes.Topics, topicKey+t.TopologyKey)
	}
	if pods.All {
		pods.Topics = nil
	}
	return pods, nodes
}
