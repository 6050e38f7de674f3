package intake

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// resumption begins the watches of a reflector. Before each watch, and before a streamed list, it checks that the API
// server has not gone back. The server's storage may have been restored from a backup in the meantime: a watch from a
// resourceVersion that the API server has not reached sends nothing until it has, and a streamed list sends objects
// before it sends its resourceVersion. It is for the reflector's one goroutine.
type resumption struct {
	list  cache.ListWithContextFunc
	watch cache.WatchFuncWithContext
	store *kindStore
	// refused means that the API server has refused a connection since the last watch. A reflector takes that for a
	// restart that has lost nothing, and resumes.
	refused bool
}

// begin begins a watch or a streamed list for the reflector. It first compares, and lets the reflector list again
// where a watch alone could not show that the API server has gone back and advanced again.
func (r *resumption) begin(ctx context.Context, options metav1.ListOptions) (begun watch.Interface, err error) {
	lists := options.SendInitialEvents != nil
	if was := r.store.versionReached(); was > 0 {
		err = r.compare(ctx, was)
	}
	if err == nil && r.refused && !lists {
		// The server has reached the same version as before, but may have gone back and advanced again: only a list
		// shows that.
		r.refused = false
		return nil, apierrors.NewResourceExpired("the API server was unavailable")
	}
	if err == nil {
		begun, err = r.watch(ctx, options)
	}
	if err != nil {
		r.refused = r.refused || utilnet.IsConnectionRefused(err)
	} else if lists {
		r.refused = false
	}
	return begun, err
}

// compare makes a consistent read of one object, and ends the round if the API server is behind what it was.
func (r *resumption) compare(ctx context.Context, was uint64) error {
	list, err := r.list(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	page, err := meta.ListAccessor(list)
	if err != nil {
		return r.store.broken(err)
	}
	is, err := r.store.version(page.GetResourceVersion())
	if err != nil || is >= was {
		return err
	}
	return r.store.broken(&WentBackError{Kind: r.store.kind, Was: was, Is: is})
}
