"""Random queries over random schemas, maintained over random epochs and compared with Spark after every one."""
