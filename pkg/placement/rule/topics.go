package rule

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/state"
)

// Joined concatenates texts so that different lists give different results: each is preceded by its length.
func Joined(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(strconv.Itoa(len(p)))
		b.WriteByte(' ')
		b.WriteString(p)
	}
	return b.String()
}

// Pairs returns the entries of a map, sorted.
func Pairs(m map[string]string) []string {
	list := make([]string, 0, len(m))
	for k, v := range m {
		list = append(list, Joined(k, v))
	}
	slices.Sort(list)
	return list
}

// marshaler is implemented by the API types.
type marshaler interface{ Marshal() ([]byte, error) }

// BytesOf returns a value as protobuf. A value that cannot be marshaled equals no other: the result then contains
// the pod's UID.
func BytesOf(pod *state.Pod, m marshaler) string {
	data, err := m.Marshal()
	if err != nil {
		return "of " + pod.UID
	}
	return string(data)
}

// WholePod returns the class of pods that are alike in everything that rules may read: it is for rules that do
// not implement Classifier. Names of volumes are ignored: that of the token volume is random.
func WholePod(pod *state.Pod) string {
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
	if HasDeviceClaims(&spec) {
		own = pod.UID // the pod's status names the claims
	}
	return Joined(append(Pairs(pod.Template.Labels), pod.Namespace, own, Owner(pod), BytesOf(pod, &spec))...)
}

// Owner identifies the pod's controller, which default spreading uses; empty for none.
func Owner(pod *state.Pod) string {
	o := metav1.GetControllerOfNoCopy(pod.Template)
	if o == nil {
		return ""
	}
	return Joined(o.APIVersion, o.Kind, o.Name)
}

// AppendPart appends a string with its length, so that the bytes that follow cannot be mistaken for part of it.
func AppendPart(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
