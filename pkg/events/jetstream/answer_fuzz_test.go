package jetstream

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// FuzzReadAnswer: whatever a server answers to a batch is read as a sequence, an error or no answer yet.
func FuzzReadAnswer(f *testing.F) {
	f.Add("", []byte(`{"stream":"FACTS","seq":7}`))
	f.Add("", []byte(`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"}}`))
	f.Add(statusNoResponders, []byte{})
	f.Fuzz(func(t *testing.T, status string, data []byte) {
		m := &nats.Msg{Header: nats.Header{headerStatus: []string{status}}, Data: data}
		sequence, final, err := readAnswer(m)
		if (sequence != 0) != (final && err == nil) {
			t.Errorf("sequence %d, final %t, error %v", sequence, final, err)
		}
	})
}
