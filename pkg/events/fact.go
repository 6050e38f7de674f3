package events

// Kind names the Kubernetes kind of a Fact, lower case and singular. A later version may have more kinds (see
// Known).
type Kind string

// The kinds of facts. ResourceVersions and progress are comparable only within a kind (the API server may keep
// kinds in different stores).
const (
	KindPod                   Kind = "pod"
	KindNode                  Kind = "node"
	KindNamespace             Kind = "namespace"
	KindPriorityClass         Kind = "priorityclass"
	KindDisruptionBudget      Kind = "poddisruptionbudget"
	KindPersistentVolume      Kind = "persistentvolume"
	KindVolumeClaim           Kind = "persistentvolumeclaim"
	KindService               Kind = "service"
	KindReplicaSet            Kind = "replicaset"
	KindStatefulSet           Kind = "statefulset"
	KindReplicationController Kind = "replicationcontroller"
	// KindNodeMetrics and KindPodMetrics are actual use, as metrics.k8s.io samples it. That API has no watch, so
	// these kinds have no progress. Their resourceVersion only distinguishes two samples. One object of
	// KindPodMetrics is a page: it lists many pods of a namespace in place of the containers of one pod.
	KindNodeMetrics      Kind = "nodemetrics"
	KindPodMetrics       Kind = "podmetrics"
	KindStorageClass     Kind = "storageclass"
	KindCSINode          Kind = "csinode"
	KindCSIDriver        Kind = "csidriver"
	KindStorageCapacity  Kind = "csistoragecapacity"
	KindVolumeAttachment Kind = "volumeattachment"
	KindResourceClaim    Kind = "resourceclaim"
	KindResourceSlice    Kind = "resourceslice"
	KindDeviceClass      Kind = "deviceclass"
	KindDeviceTaintRule  Kind = "devicetaintrule"
	KindPodGroup         Kind = "podgroup"
)

// Op names the effect of a Fact on the state of its kind. The numbers are part of the stored format.
type Op uint8

const (
	// OpUpsert adds or replaces one object.
	OpUpsert Op = iota + 1
	// OpDelete removes one object. ResourceVersion is that of the deletion if the watch delivered it, else the
	// resourceVersion of the list that no longer contained the object.
	OpDelete
	// OpProgress changes no object. It states that every fact of the kind up to Progress is at or before this
	// sequence (a bookmark, or the closing marker of a list).
	OpProgress
	// OpEpochBegin opens a repair of the stream under a new fact epoch: readers drop their progress of every kind
	// until OpEpochEnd of that epoch. Its Progress names the epoch of the fact before it (0: not recorded), so that
	// a reader whose applied tail was lost cannot mistake the repair for a continuation. One that names itself
	// starts from scratch, see Fact.StartsFromScratch.
	OpEpochBegin
	// OpEpochEnd closes the repair; progress is valid again, for each kind from its marker inside the repair on.
	OpEpochEnd
	// OpUnreadable replaces a record that a reader cannot decode, with the reason as its Cause. It is never
	// written: readers put it in the position of the record.
	OpUnreadable
)

// Fact is one change of the cluster as the queue saw it, in the order it saw it.
type Fact struct {
	Kind Kind
	Op   Op
	// UID, Namespace and Name identify the object; empty for markers.
	UID, Namespace, Name string
	// ResourceVersion is the object's own. It does not order the object with respect to other objects: use
	// Progress.
	ResourceVersion uint64
	// Progress is the resourceVersion up to which every fact of this kind is at or before this one. Items of a list
	// carry the progress from before the list; the closing marker carries the list's.
	Progress uint64
	// Epoch is the fact epoch: it grows by one each time a writer had to repair the log.
	Epoch uint64
	// Cause is a short word for the source of the fact: "watch", "list", "bookmark", "repair".
	Cause string
	// Object is the Kubernetes protobuf of the stripped object (OpUpsert), else nil. It is nil for OpDelete too:
	// readers have the object.
	Object []byte
	// TraceParent is the W3C traceparent of the span that saw the change, or empty.
	TraceParent string
}

// StartsFromScratch reports whether nothing before f counts: the facts that follow describe everything that exists,
// for readers without any state. Such a fact is the begin of an epoch that names itself as the one before it, which
// no other fact can.
func (f *Fact) StartsFromScratch() bool {
	return f.Op == OpEpochBegin && f.Epoch > 0 && f.Progress == f.Epoch
}

// SequencedFact is a Fact with its position in the log. All facts of a frame have its sequence, and are applied
// together; Index is the place of a fact among them.
type SequencedFact struct {
	Sequence uint64
	Index    int
	Fact
}
