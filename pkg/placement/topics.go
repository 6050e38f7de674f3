package placement

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// appendPart appends a string with its length, so that the bytes that follow cannot be mistaken for part of it.
func appendPart(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
