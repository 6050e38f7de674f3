package main

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

const (
	// licence is the label of nodes that have one, and how good it is.
	licence = "example.com/licence"
	// The timeouts keep a caller that says nothing from holding a connection.
	headerTimeout  = 5 * time.Second
	requestTimeout = 30 * time.Second // thousands of nodes
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8888", "address to serve on")
	flag.Parse()
	mux := http.NewServeMux()
	mux.Handle("POST /filter", answering(filter))
	mux.Handle("POST /prioritize", answering(prioritize))
	server := &http.Server{
		Addr: *listen, Handler: mux, ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout,
		WriteTimeout: requestTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
	log.Fatal(server.ListenAndServe())
}

// answering serves a verb.
func answering[T any](verb func(extenderv1.ExtenderArgs) T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var args extenderv1.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil || args.Pod == nil || args.Nodes == nil {
			http.Error(w, "want a pod and nodes: is nodeCacheCapable set?", http.StatusBadRequest)
			return
		}
		log.Printf("%s: pod %s/%s, %d nodes", r.URL.Path, args.Pod.Namespace, args.Pod.Name, len(args.Nodes.Items))
		if err := json.NewEncoder(w).Encode(verb(args)); err != nil {
			log.Print(err)
		}
	})
}

func filter(args extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
	r := extenderv1.ExtenderFilterResult{Nodes: &corev1.NodeList{}, FailedNodes: extenderv1.FailedNodesMap{}}
	for _, n := range args.Nodes.Items {
		if _, has := n.Labels[licence]; has {
			r.Nodes.Items = append(r.Nodes.Items, n)
		} else {
			r.FailedNodes[n.Name] = "node(s) had no licence"
		}
	}
	return r
}

func prioritize(args extenderv1.ExtenderArgs) extenderv1.HostPriorityList {
	var list extenderv1.HostPriorityList
	for _, n := range args.Nodes.Items {
		worth, err := strconv.ParseInt(n.Labels[licence], 10, 64)
		if err != nil {
			worth = extenderv1.MinExtenderPriority
		}
		list = append(list, extenderv1.HostPriority{Host: n.Name, Score: min(worth, extenderv1.MaxExtenderPriority)})
	}
	return list
}
