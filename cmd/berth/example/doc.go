// Command example is Berth with a few additional plugins, as a starting point for custom plugins (docs/extending.md).
// The plugins are written against k8s.io/kube-scheduler/framework and do not depend on Berth:
//
//   - Licences (main.go) allows pods with the label "licence" only on nodes with the label that its arguments name,
//     prefers nodes with more licences left, and writes the licence's number on the pod before it is bound. It
//     implements PreEnqueue, PreFilter, Filter, Score, PreBind and queueing hints.
//   - Together (together.go) makes the pods of a group wait for each other. It implements Permit and Reserve.
//   - Courier (courier.go) binds some pods itself. It implements Bind.
//
// Everything else is the command berth: the same subcommands, flags and configuration files, in which profiles enable
// the plugins by their names (examples/plugin.yaml):
//
//	profiles:
//	- schedulerName: default-scheduler
//	  plugins:
//	    multiPoint:
//	      enabled:
//	      - name: Licences
//	        weight: 5
//	  pluginConfig:
//	  - name: Licences
//	    args:
//	      label: example.com/licences
package main
