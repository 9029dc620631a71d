package sqlite

import "fmt"

// A fileSystem is where the file lies.
type fileSystem struct {
	name    string
	foreign bool // other machines may write to it
	known   bool
}

// foreign are file systems that other machines may reach, by the number that statfs gives them.
var foreign = map[int64]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x01021997: "9p", 0x65735546: "FUSE",
	0x00c36400: "Ceph", 0x5346414f: "AFS", 0x6b414653: "AFS", 0x73757245: "Coda", 0x01161970: "GFS2",
	0x7461636f: "OCFS2", 0x0bd00bd0: "Lustre", 0x564c: "NCP", 0x786f4256: "VirtualBox shared folder", 0x47504653: "GPFS",
	0x19830326: "BeeGFS", 0xbacbacbc: "VMware shared folder",
}

// judged is the file system that Linux gives a number.
func judged(magic int64) fileSystem {
	if name, ok := foreign[magic]; ok {
		return fileSystem{name: name, foreign: true, known: true}
	}
	return fileSystem{name: fmt.Sprintf("local (type %#x)", magic), known: true}
}
