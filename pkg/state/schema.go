package state

import (
	"fmt"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/berth-scheduler/berth/pkg/events"
)

// Tables. Each has at most two string indexes, because each index costs a path copy per
// change; "placed" is a table of its own so that only bound pods pay for it.
const (
	tablePods    = "pods"
	tableNodes   = "nodes"
	tablePlaced  = "placed"
	tableObjects = "objects"

	indexID     = "id"
	indexName   = "name"
	indexPrefix = "id_prefix"
)

// schema is the memdb schema of a Store.
func schema() *memdb.DBSchema {
	table := func(name string, indexes map[string]func(any) string) *memdb.TableSchema {
		t := &memdb.TableSchema{Name: name, Indexes: map[string]*memdb.IndexSchema{}}
		for index, key := range indexes {
			t.Indexes[index] = &memdb.IndexSchema{Name: index, Unique: true, Indexer: keyIndexer{key: key}}
		}
		return t
	}
	return &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{
		tablePods: table(tablePods, map[string]func(any) string{
			indexID:   func(v any) string { return v.(*Pod).UID },
			indexName: func(v any) string { return v.(*Pod).Key() },
		}),
		tableNodes: table(tableNodes, map[string]func(any) string{
			indexID:   func(v any) string { return v.(*Node).UID },
			indexName: func(v any) string { return v.(*Node).Name },
		}),
		tablePlaced: table(tablePlaced, map[string]func(any) string{
			indexID: func(v any) string { return placedKey(v.(*Pod).NodeName, v.(*Pod).UID) },
		}),
		tableObjects: table(tableObjects, map[string]func(any) string{
			indexID:   func(v any) string { return objectKey(v.(*Object).Kind, v.(*Object).UID) },
			indexName: func(v any) string { return objectNameKey(v.(*Object)) },
		}),
	}}
}

// separator cannot occur in Kubernetes names, so that compound keys are unambiguous and a
// prefix lookup for "node-1" does not find "node-10".
const separator = "\x00"

func placedKey(nodeName, uid string) string { return nodeName + separator + uid }

func objectKey(k events.Kind, uid string) string { return string(k) + separator + uid }

func objectNameKey(o *Object) string {
	return string(o.Kind) + separator + o.Namespace + "/" + o.Name
}

// keyIndexer is a memdb indexer over one computed string, without reflection.
type keyIndexer struct{ key func(any) string }

// FromObject implements memdb.SingleIndexer.
func (x keyIndexer) FromObject(v any) (bool, []byte, error) {
	return true, terminated(x.key(v)), nil
}

// FromArgs implements memdb.Indexer: one argument, the whole key.
func (x keyIndexer) FromArgs(args ...any) ([]byte, error) {
	s, err := oneString(args)
	return terminated(s), err
}

// PrefixFromArgs implements memdb.PrefixIndexer: one argument, the start of the key.
func (x keyIndexer) PrefixFromArgs(args ...any) ([]byte, error) {
	s, err := oneString(args)
	return []byte(s), err
}

// terminated ends a key with a byte no key contains, so that no key is a prefix of
// another.
func terminated(key string) []byte {
	b := make([]byte, 0, len(key)+1)
	return append(append(b, key...), 0)
}

func oneString(args []any) (string, error) {
	if len(args) == 1 {
		if s, ok := args[0].(string); ok {
			return s, nil
		}
	}
	return "", fmt.Errorf("state: index arguments %v: want one string", args)
}
