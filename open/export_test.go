package open

var (
	RedisTransport    = redisTransport
	PostgresTransport = postgresTransport
	EtcdTransport     = etcdTransport
)
