package linz

import (
	"context"
	"fmt"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// next is a number that no client has had, and higher than all.
func (c *client) next() uint64 { return c.versions.Add(1) }

// view is the client's view of the ledger.
func (c *client) view() (*replica.View, error) {
	var kvs []ledger.KV
	for _, kv := range c.known {
		kvs = append(kvs, kv)
	}
	v := replica.NewView()
	return v, v.Reset(kvs, 1)
}

// admit is T15 of a node.
func (c *client) admit(ctx context.Context, v *replica.View, node string, rv uint64) error {
	name := c.site.names[node]
	change, err := txns.AdmitNode{
		NodeUID: node, NodeName: name, NodeRV: rv, Known: v.Names().Incarnation(name), Docs: v.Names().Docs(name),
		Floor: v.Floor(),
	}.Admit()
	if err != nil {
		return err
	}
	txn, err := change.Txn()
	if err != nil {
		return err
	}
	c.commit(ctx, txn)
	return nil
}

// collect is T16 of some document, which is emptied first, as if all its pods were bound.
func (c *client) collect(ctx context.Context) error {
	v, err := c.view()
	if err != nil {
		return err
	}
	node := c.site.nodes[c.rng.IntN(len(c.site.nodes))]
	d, ok := v.Doc(node)
	if !ok {
		return nil
	}
	if len(d.Entries) > 0 {
		d.Entries = nil
		txn, err := txns.Replace(d.Cover(ledger.KindPod, c.next()))
		if err != nil {
			return err
		}
		c.commit(ctx, txn)
		return nil
	}
	collection := txns.CollectionOf(v, []string{ledger.KeyNode(node)})
	// No floor is written twice.
	collection.Docs[0] = collection.Docs[0].Cover(ledger.KindPod, c.next())
	txn, err := collection.Collect()
	if err != nil {
		return err
	}
	c.commit(ctx, txn)
	return nil
}

// checkNames: after a read of everything, at most one document of a name takes placements, and it is that of the
// name's present node.
func (c *client) checkNames() {
	v, err := c.view()
	if err != nil {
		c.broken = append(c.broken, err.Error())
		return
	}
	for _, name := range []string{"one", "two"} {
		for _, d := range v.Names().Docs(name) {
			if i := v.Names().Incarnation(name); d.SupersededBy == "" && i.NodeUID != d.NodeUID {
				c.broken = append(c.broken, fmt.Sprintf("the document of node %s takes placements, and the name %s stands for %q",
					d.NodeUID, name, i.NodeUID))
			}
		}
	}
}
