package statetest

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// Poison is a record of the facts that no reader can decode, or that has nonsensical content.
type Poison struct {
	Name    string
	Message eventlog.Message
}

// PoisonFacts returns records in positions where a fact of an epoch should be.
func PoisonFacts(epoch uint64) []Poison {
	pod := Pod("default", "poison")
	node := Node("poison")
	nameless := Node("poison")
	nameless.Name = ""
	upsert := func(kind events.Kind, data []byte) eventlog.Message {
		return events.EncodeFact(events.Fact{
			Kind: kind, Op: events.OpUpsert, UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name,
			ResourceVersion: 1, Epoch: epoch, Object: data,
		})
	}
	about := func(kind events.Kind, obj interface{ Marshal() ([]byte, error) }) eventlog.Message {
		data, err := obj.Marshal()
		if err != nil {
			panic("statetest: " + err.Error())
		}
		return upsert(kind, data)
	}
	whole := about(events.KindPod, pod)
	with := func(key, value string) eventlog.Message {
		m := about(events.KindPod, pod)
		m.Header.Set(key, value)
		return m
	}
	bare := eventlog.Message{Subject: "facts.pod.x.1", Data: []byte("poison")}
	unscoped := about(events.KindNode, node)
	unscoped.Header.Set(eventlog.HeaderUID, string(node.UID))
	unscoped.Header.Set(eventlog.HeaderNamespace, "")
	later := with(eventlog.HeaderSchema, "99")
	return []Poison{
		{"no headers", bare},
		{"a later encoding", later},
		{"an epoch that is no number", with(eventlog.HeaderEpoch, "x")},
		{"another epoch", with(eventlog.HeaderEpoch, "4000000000")},
		{"no epoch", with(eventlog.HeaderEpoch, "")},
		{"an op that is not known", with(eventlog.HeaderOp, "merge")},
		{"a broken escape", with(eventlog.HeaderName, "%4")},
		{"no uid", with(eventlog.HeaderUID, "")},
		{"an empty payload", upsert(events.KindPod, nil)},
		{"a payload that ends early", upsert(events.KindPod, whole.Data[:len(whole.Data)-3])},
		{"a payload that is no message", upsert(events.KindPod, []byte{0xff, 0xff, 0xff})},
		{"a payload of 900 kB that is no message", upsert(events.KindPod, []byte(strings.Repeat("\xff", 900<<10)))},
		{"a node's payload of a pod", about(events.KindNode, pod)},
		{"a pod's payload of a node", about(events.KindPod, node)},
		{"another uid in the payload", about(events.KindPod, &corev1.Pod{})},
		{"another name in the payload", with(eventlog.HeaderName, "other")},
		{"a node without a name", func() eventlog.Message {
			m := about(events.KindNode, nameless)
			m.Header.Set(eventlog.HeaderUID, string(nameless.UID))
			m.Header.Set(eventlog.HeaderNamespace, "")
			return m
		}()},
		{"a deletion with a payload", func() eventlog.Message {
			m := about(events.KindPod, pod)
			m.Header.Set(eventlog.HeaderOp, events.OpDelete.String())
			return m
		}()},
	}
}
