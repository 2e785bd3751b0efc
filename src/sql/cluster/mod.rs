//! Tables whose parts are on several machines (cargo feature `cluster`), over the exchange of
//! `datafusion-distributed`: any machine plans a statement, and each reads its own parts.
//!
//! Where this stands on the road of a query: `names` asks here what a table is; what the machines'
//! manifests say of their parts is planned like a table that is here. At the end of planning,
//! `distribute` puts what each machine does in the place of scans and fragments. What crosses the
//! wire is a part of a logical plan, in DataFusion's encoding (`codec`), which the other machine
//! lowers to a fragment or a scan as it does with its own statements. Groups come back as their
//! states (`query/aggregate/transfer`), and are merged here (`merge`): sums come out the same, bit
//! by bit, however rows are spread.
//!
//! | module | what it has |
//! | --- | --- |
//! | `description` | which machines there are, and which of them has what |
//! | `nodes` | connections to them |
//! | `state` | what a machine says of a table, and a table of what several say |
//! | `tables` | what names mean in a cluster |
//! | `gather` | the streams of all machines in the partitions of a plan |
//! | `merge` | groups of the states that machines send |
//! | `functions` | functions that rules put into plans |
//! | `codec` | tasks as bytes, and operators of them |
//! | `leaves` | what machines do with their parts of a table |
//! | `sendable` | which operators other machines can run |
//! | `sites` | where an operator runs |
//! | `colocated` | joins and groups whose rows are on one machine already |
//! | `stages` | which operators run where the rows are, and what goes over the network |
//! | `joins` | which side of a join is sent where |
//! | `distribute` | the last rule of planning |
//! | `node` | what a machine does for others |
//! | `calls` | calls whose request and answer go on at the same time |
//! | `storing` | segments on their way into the store of a machine |
//! | `copies` | loads into tables in copies, and `sty cluster copy` |
//! | `placing` | which machine gets which rows |
//! | `stopped` | loads that some of their machines have, and others have not |
//! | `rounds` | the files of the next commit of a load |
//! | `loads` | a load whose rows go to several machines |
//! | `forget` | loads that have stopped and are given up |
//! | `forecast` | what a load would begin with |
//! | `inserts` | rows of statements, and changes of tables in copies |
//! | `changes` | DELETE, UPDATE and DROP TABLE |
//! | `moves` | a partition that moves from one machine to another |
//! | `status` | what machines have |

pub(in crate::sql) mod description;
pub(in crate::sql) mod nodes;
pub(in crate::sql) mod calls;
pub(in crate::sql) mod state;
pub(in crate::sql) mod storing;
pub(in crate::sql) mod copies;
mod placing;
pub(in crate::sql) mod tables;
pub(in crate::sql) mod moves;
mod stopped;
mod rounds;
pub(in crate::sql) mod loads;
mod forget;
mod forecast;
pub(in crate::sql) mod inserts;
pub(in crate::sql) mod changes;
pub(in crate::sql) mod status;
mod gather;
mod merge;
pub(in crate::sql) mod functions;
pub(in crate::sql) mod codec;
mod leaves;
mod joins;
mod sites;
mod sendable;
mod colocated;
mod stages;
pub(in crate::sql) mod distribute;
pub(in crate::sql) mod node;
