package linz

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// The model by itself, on histories that need no etcd: at client 0 a document is put, at client 1
// something overlaps with it or follows.
func TestModel(t *testing.T) {
	put := func(old, now content) operation {
		return operation{kind: opTxn, compares: map[int]content{2: old}, puts: map[int]content{2: now}}
	}
	read := operation{kind: opRead}
	saw := func(c content) answer { return answer{seen: map[int]content{2: c}} }
	done, unknown := answer{succeeded: true}, answer{unknown: true}
	op := func(client int, in operation, out answer, call, ret int64) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: ret}
	}
	for name, tt := range map[string]struct {
		history []porcupine.Operation
		ok      bool
	}{
		"a read after a put": {[]porcupine.Operation{op(0, put(0, 1), done, 0, 1), op(1, read, saw(1), 2, 3)}, true},
		"a stale read":       {[]porcupine.Operation{op(0, put(0, 1), done, 0, 1), op(1, read, saw(0), 2, 3)}, false},
		"an overlap":         {[]porcupine.Operation{op(0, put(0, 1), done, 0, 3), op(1, read, saw(0), 1, 2)}, true},
		"both of two win":    {[]porcupine.Operation{op(0, put(0, 1), done, 0, 3), op(1, put(0, 2), done, 1, 2)}, false},
		"one of two wins":    {[]porcupine.Operation{op(0, put(0, 1), done, 0, 3), op(1, put(0, 2), saw(1), 1, 2)}, true},
		"unknown, and done":  {[]porcupine.Operation{op(0, put(0, 1), unknown, 0, 9), op(1, read, saw(1), 2, 3)}, true},
		"unknown, and not":   {[]porcupine.Operation{op(0, put(0, 1), unknown, 0, 9), op(1, put(0, 2), done, 2, 3)}, true},
		"unknown, and undone": {[]porcupine.Operation{
			op(0, put(0, 1), unknown, 0, 9), op(1, read, saw(1), 2, 3), op(1, read, saw(0), 4, 5)}, false},
		"a lease that ends": {[]porcupine.Operation{
			op(0, operation{kind: opTxn, compares: map[int]content{0: 0}, puts: map[int]content{0: 1}}, done, 0, 1),
			op(2, operation{kind: opExpire, key: 0, held: 1}, unknown, 0, 9),
			op(1, operation{kind: opTxn, compares: map[int]content{0: 0}, puts: map[int]content{0: 2}}, done, 2, 3),
			op(0, operation{kind: opTxn, compares: map[int]content{0: 1}, puts: map[int]content{2: 1}}, done, 4, 5),
		}, false},
	} {
		if got := porcupine.CheckOperations(model, tt.history); got != tt.ok {
			t.Errorf("%s: explained: %v, want %v", name, got, tt.ok)
		}
	}
}
