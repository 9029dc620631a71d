package sqlite

import "fmt"

// A fileSystem describes the file system of the file.
type fileSystem struct {
	name    string
	foreign bool // other machines may write to it
	known   bool
}

// foreign lists file systems that other machines may reach, by their number in statfs.
var foreign = map[int64]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x01021997: "9p", 0x65735546: "FUSE",
	0x00c36400: "Ceph", 0x5346414f: "AFS", 0x6b414653: "AFS", 0x73757245: "Coda", 0x01161970: "GFS2",
	0x7461636f: "OCFS2", 0x0bd00bd0: "Lustre", 0x564c: "NCP", 0x786f4256: "VirtualBox shared folder", 0x47504653: "GPFS",
	0x19830326: "BeeGFS", 0xbacbacbc: "VMware shared folder",
}

// local lists file systems of one machine.
var local = map[int64]string{
	0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x2fc12fc1: "zfs", 0xf2f52010: "f2fs", 0xca451a4e: "bcachefs",
	0x01021994: "tmpfs", 0x858458f6: "ramfs", 0x794c7630: "overlay", 0x3153464a: "jfs", 0x52654973: "reiserfs",
}

// classify returns the file system with a number of Linux. A number in neither list is unknown.
func classify(magic int64) fileSystem {
	if name, ok := foreign[magic]; ok {
		return fileSystem{name: name, foreign: true, known: true}
	}
	if name, ok := local[magic]; ok {
		return fileSystem{name: name, known: true}
	}
	return fileSystem{name: fmt.Sprintf("of type %#x", magic)}
}
