package state

import (
	"fmt"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/berth-scheduler/berth/pkg/events"
)

// Tables. A row costs some 400 bytes in each index of its table, more than a pod. Nodes and other objects are rows,
// with at most two indexes, or three for the kinds that are filed under a key (see Snapshot.ObjectsOf). Pods are
// many, and not rows: they are in a podTable. Here are their order by name, in pages (see podNames), in "placed" the
// pods of each node, with a row per node, and in "members" those of each pod group, with a row per group.
const (
	tableNames   = "names"
	tableNodes   = "nodes"
	tablePlaced  = "placed"
	tableMembers = "members"
	tableObjects = "objects"

	indexID   = "id"
	indexName = "name"
	indexFile = "file"
)

// schema is the memdb schema of a Store.
func schema() *memdb.DBSchema {
	table := func(name string, indexes map[string]func(any) string) *memdb.TableSchema {
		t := &memdb.TableSchema{Name: name, Indexes: map[string]*memdb.IndexSchema{}}
		for index, key := range indexes {
			optional := index == indexFile
			t.Indexes[index] = &memdb.IndexSchema{
				Name: index, Unique: true, AllowMissing: optional, Indexer: keyIndexer{key, optional},
			}
		}
		return t
	}
	return &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{
		tableNames: table(tableNames, map[string]func(any) string{
			indexID: func(v any) string { return v.(*page).to.String() },
		}),
		tablePlaced: table(tablePlaced, map[string]func(any) string{
			indexID: func(v any) string { return v.(*site).key },
		}),
		tableMembers: table(tableMembers, map[string]func(any) string{
			indexID: func(v any) string { return v.(*site).key },
		}),
		tableNodes: table(tableNodes, map[string]func(any) string{
			indexID:   func(v any) string { return v.(*Node).UID },
			indexName: func(v any) string { return v.(*Node).Name },
		}),
		tableObjects: table(tableObjects, map[string]func(any) string{
			indexID:   func(v any) string { return objectKey(v.(*Object).Kind, v.(*Object).UID) },
			indexName: func(v any) string { return objectNameKey(v.(*Object)) },
			indexFile: func(v any) string { return objectFileKey(v.(*Object)) },
		}),
	}}
}

// separator cannot occur in Kubernetes names, so compound keys are unambiguous and a prefix lookup for one
// namespace does not find another.
const separator = "\x00"

// objectKey is the id of an object: UIDs are unique within a kind. objectNameKey is its name index, ordered by
// kind, namespace and name.
func objectKey(k events.Kind, uid string) string { return string(k) + separator + uid }

func objectNameKey(o *Object) string {
	return string(o.Kind) + separator + o.Namespace + "/" + o.Name
}

// objectFileKey returns the key under which an object is filed; empty for an object that is not filed.
func objectFileKey(o *Object) string {
	key, filed := FileOf(o.API)
	if !filed {
		return ""
	}
	return filePrefix(o.Kind, key) + o.Namespace + "/" + o.Name
}

// filePrefix is the prefix of the index keys of all objects filed under a key, ordered by namespace and name.
func filePrefix(k events.Kind, key string) string {
	return string(k) + separator + key + separator
}

// keyIndexer is a memdb indexer over one computed string, without reflection.
type keyIndexer struct {
	key func(any) string
	// optional: a value with an empty key is not in the index.
	optional bool
}

// FromObject implements memdb.SingleIndexer.
func (x keyIndexer) FromObject(v any) (bool, []byte, error) {
	key := x.key(v)
	return !x.optional || key != "", terminated(key), nil
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

// terminated ends a key with the smallest byte, so that no key is a prefix of another and the order of keys is that
// of the strings.
func terminated(key string) []byte {
	b := make([]byte, 0, len(key)+1)
	return append(append(b, key...), 0)
}

// oneString returns the only argument of a query, which must be a string.
func oneString(args []any) (string, error) {
	if len(args) == 1 {
		if s, ok := args[0].(string); ok {
			return s, nil
		}
	}
	return "", fmt.Errorf("state: index arguments %v: want one string", args)
}
